package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// lanes is the number of streams that logs are spread over: one stream syncs one write at a time.
const lanes = 4

// patience is how long one write may take. A disk that needs longer is broken,
// and the store then stops writing: the write may or may not be there.
const patience = time.Minute

// streams are all of them, index first.
func streams() []jetstream.StreamConfig {
	out := []jetstream.StreamConfig{config("index")}
	for i := range lanes {
		out = append(out, config("log"+strconv.Itoa(i)))
	}
	return append(out, config("blob"))
}

func config(name string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        name,
		Subjects:    []string{name + ".*"},
		Storage:     jetstream.FileStorage,
		Retention:   jetstream.LimitsPolicy,
		Replicas:    1,
		MaxMsgs:     -1,
		MaxBytes:    -1,
		AllowDirect: true,
		DenyDelete:  true,
	}
}

// engine is the embedded server and our connection to it.
type engine struct {
	srv *server.Server
	nc  *nats.Conn
	js  jetstream.JetStream
}

func start(dir string, warn func(string)) (_ *engine, err error) {
	// The server takes a folder of its own inside of this one.
	if err := os.MkdirAll(filepath.Join(dir, "jetstream"), 0o700); err != nil {
		return nil, err
	}
	srv, err := server.NewServer(&server.Options{
		ServerName:         "tacit",
		DontListen:         true,
		JetStream:          true,
		StoreDir:           dir,
		SyncAlways:         true,
		JetStreamMaxMemory: 1 << 20,
		JetStreamMaxStore:  1 << 50, // the disk is the limit, and a full one is an error of its own
		MaxPayload:         partSize + (64 << 10),
		MaxPending:         64 << 20,
		NoSigs:             true,
		NoSystemAccount:    true,
	})
	if err != nil {
		return nil, fmt.Errorf("store: server: %w", err)
	}
	srv.SetLoggerV2(quiet(warn), false, false, false)
	e := &engine{srv: srv}
	defer func() {
		if err != nil {
			e.stop()
		}
	}()
	srv.Start()
	if !srv.ReadyForConnections(patience) {
		return nil, errors.New("store: the embedded server did not start within a minute")
	}
	// Asserted, not assumed: without it an acknowledged write is on disk two minutes later.
	if c := srv.JetStreamConfig(); c == nil || !c.SyncAlways {
		return nil, errors.New("store: the embedded server does not sync each write")
	}
	if e.nc, err = nats.Connect("", nats.InProcessServer(srv), nats.NoReconnect(), nats.Timeout(patience)); err != nil {
		return nil, fmt.Errorf("store: connect: %w", err)
	}
	e.js, err = jetstream.New(e.nc, jetstream.WithDefaultTimeout(patience))
	return e, err
}

func (e *engine) stop() {
	if e.nc != nil {
		e.nc.Close()
	}
	e.srv.Shutdown()
	e.srv.WaitForShutdown()
}

// create makes the streams of a new folder; those that a crash left behind may be there.
func (e *engine) create(ctx context.Context) error {
	for _, c := range streams() {
		if _, err := e.js.CreateOrUpdateStream(ctx, c); err != nil {
			return fmt.Errorf("store: stream %s: %w", c.Name, err)
		}
	}
	return nil
}

// check reports the first stream that is not there or not as we make it.
func (e *engine) check(ctx context.Context) (name, what string) {
	for _, c := range streams() {
		s, err := e.js.Stream(ctx, c.Name)
		if err != nil {
			return c.Name, "cannot be read: " + err.Error()
		}
		got := s.CachedInfo().Config
		if got.Storage != c.Storage || got.Retention != c.Retention || got.MaxAge != 0 || got.MaxMsgs > 0 ||
			got.MaxBytes > 0 ||
			got.MaxMsgsPerSubject > 0 || got.PersistMode != c.PersistMode || got.Replicas != 1 || !got.AllowDirect ||
			len(got.Subjects) != 1 || got.Subjects[0] != c.Subjects[0] {
			return c.Name, "has other settings than it was made with"
		}
	}
	return "", ""
}

// publish adds a message if the last one of its subject has number after, and
// returns its number when it is synced. errors.Is(err, ErrFenced) is a clean
// refusal; after another error the message may be there or not.
func (e *engine) publish(subject string, after uint64, data []byte) (uint64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	reply, err := e.nc.RequestMsgWithContext(ctx, &nats.Msg{
		Subject: subject, Data: data,
		Header: nats.Header{nats.ExpectedLastSubjSeqHdr: []string{strconv.FormatUint(after, 10)}},
	})
	if err != nil {
		return 0, fmt.Errorf("store: write: %w", err)
	}
	var ack struct {
		Seq   uint64
		Error *server.ApiError
	}
	if err := json.Unmarshal(reply.Data, &ack); err != nil {
		return 0, fmt.Errorf("store: write: %w", err)
	}
	if ack.Error != nil {
		if ack.Error.ErrCode == uint16(server.JSStreamWrongLastSequenceErrF) {
			return 0, ErrFenced
		}
		return 0, fmt.Errorf("store: write: %s", ack.Error.Description)
	}
	return ack.Seq, nil
}

// read gives the messages of a stream whose subject matches, in their order.
func (e *engine) read(stream, subject string, each func(seq uint64, subject string, data []byte) error) error {
	const ask = 256
	inbox := nats.NewInbox()
	sub, err := e.nc.SubscribeSync(inbox)
	if err != nil {
		return fmt.Errorf("store: read: %w", err)
	}
	defer sub.Unsubscribe()
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return fmt.Errorf("store: read: %w", err)
	}
	for from := uint64(1); ; {
		req, err := json.Marshal(server.JSApiMsgGetRequest{Seq: from, NextFor: subject, Batch: ask, MaxBytes: 8 << 20})
		if err != nil {
			return err
		}
		if err := e.nc.PublishRequest("$JS.API.DIRECT.GET."+stream, inbox, req); err != nil {
			return fmt.Errorf("store: read: %w", err)
		}
		got := 0
		for {
			m, err := sub.NextMsg(patience)
			if err != nil {
				return fmt.Errorf("store: read: %w", err)
			}
			if status := m.Header.Get("Status"); status == "404" {
				return nil
			} else if status != "" {
				if status != "204" {
					return fmt.Errorf("store: read: the server answers %s %s", status, m.Header.Get("Description"))
				}
				break
			}
			seq, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
			if err != nil {
				return fmt.Errorf("store: read: %w", err)
			}
			if err := each(seq, m.Header.Get("Nats-Subject"), m.Data); err != nil {
				return err
			}
			from = seq + 1
			got++
		}
		if got == 0 {
			return nil
		}
	}
}

// purge forgets a subject.
func (e *engine) purge(stream, subject string) error {
	ctx := context.Background()
	s, err := e.js.Stream(ctx, stream)
	if err == nil {
		err = s.Purge(ctx, jetstream.WithPurgeSubject(subject))
	}
	if err != nil {
		return fmt.Errorf("store: purge %s: %w", subject, err)
	}
	return nil
}

// quiet hands the server's warnings and errors on.
type quiet func(message string)

func (q quiet) warn(format string, a []any) {
	if q != nil {
		q("store: " + fmt.Sprintf(format, a...))
	}
}

func (q quiet) Noticef(string, ...any)         {}
func (q quiet) Debugf(string, ...any)          {}
func (q quiet) Tracef(string, ...any)          {}
func (q quiet) Warnf(format string, a ...any)  { q.warn(format, a) }
func (q quiet) Errorf(format string, a ...any) { q.warn(format, a) }
func (q quiet) Fatalf(format string, a ...any) { q.warn(format, a) }
