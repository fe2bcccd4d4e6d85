// Package device is one participant of a federation. It records what its owner does, trains the
// federation's model on it, and recommends items. Recorded events never leave the device: it sends
// clipped, quantised and possibly masked updates, and it shows its owner a log of every one.
//
// A program opens a device with a state file, adds events, and lets it run:
//
//	d, err := device.OpenFile("my.state", device.Options{
//		Server: device.Server{URL: "https://coordinator.example:7633", Pin: pin},
//		Token:  token, // needed once, to enrol
//	})
//	err = d.Add(device.Event{Item: "42", Time: time.Now().UnixMilli()})
//	err = d.Run(ctx, nil)         // or Step, whenever the program has time
//	list, err := d.Recommend(10)  // works offline
//
// One Step follows one path, in this order of files: step.go checks in and receives a task, model.go
// downloads the model, train.go trains and encodes the update, report.go or masked.go sends it.
//
// The convention of this package is to save before it sends: the private state is one record that
// is replaced atomically, so that a crash at any moment changes neither what a device sends nor how
// often.
package device
