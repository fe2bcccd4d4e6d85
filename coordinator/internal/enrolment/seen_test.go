package enrolment

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// When devices were last seen, and their programs, survive a restart to the hour, in one record however long a
// federation lives. A device that has been away for long is overdue after it.
func TestLastSeenSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	r, stop := open(t, dir)
	now := time.Now()
	token, err := r.NewToken(3, now.Add(time.Hour), "the first batch")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if _, _, err := r.Enrol(Request{Key: key(i), Token: token, Limit: 100, Now: now}); err != nil {
			t.Fatal(err)
		}
	}
	r.Seen(0, now.Add(-20*time.Hour), time.Minute)
	r.Seen(1, now, time.Minute)
	r.NoteSoftware(1, "tacit 1.2\x07")
	for h := range 30 {
		if err := r.SaveSeen(now.Add(time.Duration(h)*time.Hour), false); err != nil {
			t.Fatal(err)
		}
	}
	r.Seen(2, now, time.Minute) // after the record of this hour
	if err := r.SaveSeen(now.Add(29*time.Hour), true); err != nil {
		t.Fatal(err)
	}
	if logs := r.store.Logs(seenLogs); len(logs) != 1 {
		t.Errorf("%d records of when devices were last seen, expected 1", len(logs))
	}
	stop()
	r, stop = open(t, dir)
	defer stop()
	r.isActive(t, time.Now(), 1, 2)
	all := r.Devices(time.Now(), 0, 10)
	if len(all) != 3 || all[0].State != Overdue || all[1].State != Active || all[1].Software != "tacit 1.2" ||
		all[1].Note != "the first batch" || all[2].LastSeen == nil {
		t.Fatalf("devices: %+v", all)
	}
	if d := now.Sub(*all[1].LastSeen); d < 0 || d > time.Hour {
		t.Errorf("device 1 was last seen %v ago, expected an hour at most", d)
	}
	if all := r.Devices(time.Now(), 1, 1); len(all) != 1 || all[0].ID != 1 {
		t.Errorf("the second page: %+v", all)
	}
}

// A device that names another program in each check-in leaves room for those of the others.
func TestADeviceHasOneProgram(t *testing.T) {
	r := enrolled(3, time.Now())
	for i := range 2 * maxPrograms {
		r.NoteSoftware(1, fmt.Sprint("program ", i))
	}
	r.NoteSoftware(2, strings.Repeat("x", 300))
	r.NoteSoftware(0, "tacit")
	all := r.Devices(time.Now(), 0, 10)
	if all[0].Software != "tacit" || all[1].Software != fmt.Sprint("program ", 2*maxPrograms-1) ||
		all[2].Software != strings.Repeat("x", 200) || len(r.programs) > 4 {
		t.Errorf("%d programs: %+v", len(r.programs), all)
	}
}

func TestCorruptLastSeenIsRefused(t *testing.T) {
	r := enrolled(3, time.Now())
	r.NoteSoftware(1, "tacit")
	good := r.appendSeen(nil)
	for n := range len(good) {
		_ = r.readSeen(good[:n]) // whatever it says, it does not panic
	}
	if err := r.readSeen(good); err != nil {
		t.Error(err)
	}
	if err := r.readSeen([]byte{1, 200}); err == nil {
		t.Error("a truncated list is read")
	}
}
