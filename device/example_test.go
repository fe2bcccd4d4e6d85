package device_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tacit-rec/tacit/device"
)

// A device records events in its state file before it has met a coordinator. Run or Step enrols it,
// and it recommends once it has a model. Error handling omitted.
func Example() {
	folder, _ := os.MkdirTemp("", "device")
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "my.state")
	passphrase := func(bool) ([]byte, error) { return []byte("correct horse"), nil }

	d, _ := device.OpenFile(path, device.Options{
		Server:     device.Server{URL: "https://coordinator.example:7633"},
		Token:      "enrolment token",
		Passphrase: passphrase,
	})
	_ = d.Add(device.Event{Item: "alien", Time: 1}, device.Event{Item: "heat", Time: 2})

	again, _ := device.OpenFile(path, device.Options{Passphrase: passphrase})
	about, _ := again.About()
	fmt.Println(about.Events, "events;", "enrolled:", about.Enrolled)
	_, err := again.Recommend(10)
	fmt.Println(errors.Is(err, device.ErrNoModel))
	// Output:
	// 2 events; enrolled: false
	// true
}
