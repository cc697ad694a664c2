// Package expiry says when an entry dies: it turns lifetimes into deadlines,
// holds the one definition of expired, and offers the policies that give
// entries their lifetimes.
//
// A TTL or lifetime is a duration. A deadline is an instant, in nanoseconds
// since an epoch that the caller chooses; deadlines saturate instead of
// wrapping around. An entry is expired if and only if now >= deadline.
//
// Policies are built upon each other: AfterCreate, AfterWrite, AfterAccess and Func
// give lifetimes; Jitter and JitterBy shorten them, so that what was stored at one
// moment does not expire at one moment; Limit bounds what sliding may add up to.
//
// The package knows no clock, lock or timing wheel: now is always an argument.
package expiry
