// Lockcheck proves that the cache calls no code of its user while it holds the
// lock of a shard, except where a line says so:
//
//	value, op := f(e.value, e.live) //wheelcache:underlock documented: f runs under the lock
//
// User's code is OnRemoval, the methods of a Policy and of an injected Clock and its
// timers, Hash, the Logger's handler, the functions given to Compute, DeleteFunc and
// iteration, and whatever else comes in the same ways: that is worked out, there is no
// list of names. Under a lock such code could use the cache, which would be a
// deadlock, or take long, which would hold up every writer of the shard.
//
//	go build -C proof/lockcheck -o /tmp/lockcheck . && /tmp/lockcheck -test=false ./...
//
// # How
//
//	region.go     where is the lock held?            a data flow in each function
//	origin.go     what may this function value be?   back through all assignments
//	walk.go       where do calls lead from there?    breadth first
//	directive.go  which of that is allowed?
//
// The lock is each mutex of the type named shard. In each function, at each point, it
// is held or free, in the worst of all ways that lead there: through Lock and Unlock,
// the branch on which TryLock has succeeded, deferred calls, and calls of functions
// that lock or unlock for their caller. Each function is looked at twice, called
// without the lock and called with it.
//
// A call under the lock is followed into functions of the package. If it calls a
// function value or a method of an interface, what that may be is looked for wherever
// anything is assigned to the variable, the field (of whichever value of the type), or
// the parameter, and at what functions return. So internal callbacks, such as those
// that the wheel visits records with, are followed like other functions, and a field
// that an option was copied to is the option. Whatever comes in from outside is the
// user's: exported fields, exported variables, and parameters of exported functions.
// Whatever cannot be followed may be the user's, and is reported too: elements of
// slices, maps and channels, variables whose address is taken, parameters of functions
// that are themselves values.
//
// Functions of packages beneath the one with the lock (wheel, expiry) have been looked
// at before, by the same means; what is known of each is passed on as a fact. If one may
// call what its package was handed, then all that was ever handed to that package is
// taken to be called there, under the lock. Of the other packages, those that are listed
// in walk.go call only what a call hands them, and that is followed; it includes
// methods such as String of values that come in an interface. All others, such as
// log/slog, are reported.
//
// Also reported: a shard locked while one is locked, since there is but one state for
// all; a use of the lock other than by its methods, on the spot; an exported function that
// returns with the lock held; a directive without a reason; and a directive that lets
// nothing pass, which shows, too, if the type shard has been renamed.
//
// # What that proves
//
// No execution of the package's code calls the user's code on a goroutine that
// holds the lock of a shard, but through a call with a directive. A directive lets its
// call pass with all that it leads to: its reason is to be believed, or not, by the
// reader. So the fewer, the better.
//
// # What it does not see
//
//   - Writes through unsafe, reflection, go:linkname and assembly. A function without a
//     body is reported if it is called under the lock; a function value that is stored
//     through an unsafe.Pointer is not seen.
//   - A goroutine that the one with the lock waits for, and on which the user's code runs.
//   - Other locks: that of the queue of removals, those of an injected clock, and the
//     versions of buckets, for which writers wait as for a lock (see table.go).
//   - Whether the listed packages of the standard library keep to what is said of them.
//   - What packages beneath were handed other than by naming their functions and fields
//     (w.Ahead(f), but not g := w.Ahead; g(f)). And they are taken to be used by the cache
//     alone: a wheel that came from the user could call the user's code.
//   - What happens after a recover. What is deferred in a function that holds the lock is
//     taken to be called under it.
//   - Comparisons of keys. They run no code in Go, though they may panic.
//   - Values: a call that is reported may be one that never happens, such as that of a clock
//     which is asked only if none was injected. That is what directives are for.
//   - Test files, when it is run as above.
package main
