package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// lanes is the number of streams that logs are spread over: one stream syncs one write at a time.
const lanes = 4

// patience is how long one write may take. After that the server is started anew.
const patience = 5 * time.Minute

const (
	// purgeWithin is how long a purge may take: some tombstones and one sync.
	purgeWithin = time.Minute
	// stopWithin is how long the server may take to stop. Everything acknowledged is on disk by then.
	stopWithin = 10 * time.Second
)

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
	log *quiet
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
	e := &engine{srv: srv, log: newQuiet(warn)}
	srv.SetLoggerV2(e.log, false, false, false)
	defer func() {
		if err != nil {
			err = errors.Join(err, e.stop(stopWithin))
		}
	}()
	srv.Start()
	for end := time.Now().Add(patience); !srv.ReadyForConnections(50 * time.Millisecond); {
		if e.log.failed.Err() != nil {
			return nil, fmt.Errorf("store: the embedded server did not start: %w", context.Cause(e.log.failed))
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("store: the embedded server did not start within %v", patience)
		}
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

// stop stops the server. Calls that wait for it return an error. It gives up after a time: a server
// that waits for one of its own locks never stops.
func (e *engine) stop(within time.Duration) error {
	e.log.fail(errEngineStopped)
	stopped := make(chan struct{})
	go func() {
		if e.nc != nil {
			e.nc.Close()
		}
		e.srv.Shutdown()
		e.srv.WaitForShutdown()
		close(stopped)
	}()
	select {
	case <-stopped:
		return nil
	case <-time.After(within):
		return fmt.Errorf("the storage did not stop within %v after the disk refused a write; "+
			"start the coordinator again", within)
	}
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
	ctx, cancel := context.WithTimeout(e.log.failed, patience)
	defer cancel()
	reply, err := e.nc.RequestMsgWithContext(ctx, &nats.Msg{
		Subject: subject, Data: data,
		Header: nats.Header{nats.ExpectedLastSubjSeqHdr: []string{strconv.FormatUint(after, 10)}},
	})
	if err != nil {
		return 0, fmt.Errorf("store: write: %w", cmp.Or(context.Cause(e.log.failed), err))
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

// last is the last message of a subject; seq is 0 if it has no messages.
func (e *engine) last(stream, subject string) (seq uint64, data []byte, err error) {
	req, err := json.Marshal(server.JSApiMsgGetRequest{LastFor: subject})
	if err != nil {
		return 0, nil, err
	}
	m, err := e.nc.Request("$JS.API.DIRECT.GET."+stream, req, patience)
	if err != nil {
		return 0, nil, fmt.Errorf("store: read: %w", err)
	}
	switch status := m.Header.Get("Status"); status {
	case "":
		seq, err = strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
		return seq, m.Data, err
	case "404":
		return 0, nil, nil
	default:
		return 0, nil, fmt.Errorf("store: read: the server answers %s %s", status, m.Header.Get("Description"))
	}
}

// purge forgets a subject.
func (e *engine) purge(ctx context.Context, stream, subject string) error {
	s, err := e.js.Stream(ctx, stream)
	if err == nil {
		err = s.Purge(ctx, jetstream.WithPurgeSubject(subject))
	}
	if err != nil {
		return fmt.Errorf("store: purge %s: %w", subject, err)
	}
	return nil
}

// quiet passes the server's warnings and errors on. The server does not answer a write that the
// disk refuses: only its log says so.
type quiet struct {
	warn   func(message string)
	failed context.Context // done when a write failed; its cause says why
	fail   context.CancelCauseFunc
}

func newQuiet(warn func(string)) *quiet {
	q := &quiet{warn: warn}
	q.failed, q.fail = context.WithCancelCause(context.Background())
	return q
}

// failures are in the messages of an engine that does not answer any more.
var failures = []string{"failed to store a msg", "permission denied", "will be DISABLED"}

// expected are warnings that say nothing to an operator: after a kill the server reads its blocks
// instead of their index, and a full disk is a state of the store.
var expected = []string{
	"Recovering stream state from index errored", "failed to store a msg", "no space left on device",
	"will be DISABLED", "Stream state ",
}

func (q *quiet) pass(format string, a []any) {
	text := fmt.Sprintf(format, a...)
	for _, part := range failures {
		if strings.Contains(text, part) {
			q.fail(errors.New(text))
		}
	}
	for _, part := range expected {
		if strings.Contains(text, part) {
			return
		}
	}
	if q.warn != nil {
		q.warn("storage: " + text)
	}
}

func (q *quiet) Noticef(string, ...any)         {}
func (q *quiet) Debugf(string, ...any)          {}
func (q *quiet) Tracef(string, ...any)          {}
func (q *quiet) Warnf(format string, a ...any)  { q.pass(format, a) }
func (q *quiet) Errorf(format string, a ...any) { q.pass(format, a) }

func (q *quiet) Fatalf(format string, a ...any) {
	q.fail(fmt.Errorf(format, a...))
	q.pass(format, a)
}
