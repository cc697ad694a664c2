// Package proof holds the tests of wheelcache that need libraries of their own:
// concurrent histories checked for linearizability, and for goroutines left
// behind. README.md says what is proved, and how.
package proof
