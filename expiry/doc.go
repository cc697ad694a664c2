// Package expiry says when an entry dies: it turns lifetimes into deadlines,
// holds the one definition of expired, and offers the policies that give
// entries their lifetimes.
//
// A TTL or lifetime is a duration. A deadline is an instant, in nanoseconds
// since an epoch that the caller chooses; deadlines saturate instead of
// wrapping around. An entry is expired if and only if now >= deadline.
//
// The package knows no clock, lock or timing wheel: now is always an argument.
package expiry
