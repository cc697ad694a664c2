package main

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"
)

// What is to be reported stands beside the line, in testdata/src/example.com:
//
//	clean       nothing: it does, without a fault, all that the cache does
//	seeded      each way to call the user's code under the lock
//	directives  directives that are needed, and others
//	renamed     a package whose shard has another name, which must not go unnoticed
func Test_each_seeded_violation_is_reported_and_nothing_else_is(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), Analyzer,
		"example.com/clean", "example.com/seeded", "example.com/directives", "example.com/renamed")
}
