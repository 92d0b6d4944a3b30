// Package gpu is the seam between our kernels and whatever runs them: devices,
// memory, streams, events, modules, launches and graphs, as the CUDA driver API
// has them, and nothing of any library. gpu/cuda implements it over the real
// driver, gpu/ptxsim by interpreting the same PTX with every access checked.
//
// # A device and its thread
//
// A context is current on one operating-system thread. Whoever uses a device
// calls [Device.Bind] first, once per goroutine and not once per call: it locks
// the goroutine to its thread and makes the context current there. All methods
// of a device and of what it made belong to one bound goroutine at a time, but
// for [Event.Wait], which any goroutine may call: that is how somebody waits for
// a step without holding up who launches the next.
//
// # Order
//
// Operations of a stream run in the order in which they were enqueued, and those
// of two streams in any, unless an [Event] orders them. Memory that an
// operation names must stay as it is until the operation has run. Operations
// copy between the device and pinned memory ([Device.AllocHost]) only; any other
// memory goes through [Device.Upload] and [Device.Download], which wait.
//
// # Errors
//
// Whatever the driver refuses comes back as an [*Error] with CUDA's number, name
// and text. Some errors are sticky: the context is lost and so is all that the
// device holds. An asynchronous operation that fails is reported by a later call.
package gpu
