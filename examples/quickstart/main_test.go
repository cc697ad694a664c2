package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// TestStory runs the whole story in a moment and to the millisecond: time is
// synctest's.
func TestStory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		require.NoError(t, run(&b))
		story := b.String()
		for _, line := range []string{
			"     0 ms  Get(news) = 1\n",
			"   250 ms  Get(news): absent\n",
			"   250 ms  Get(home) = 1\n",
			"  1100 ms  Get(home) = 1\n",
			"  1100 ms  Get(logo): absent\n",
			"  1100 ms  GetOrSet(home, 100) = 1, loaded: true\n",
			"  1100 ms  GetOrSet(about, 100) = 100, loaded: false\n",
			"  1100 ms  Compute(about, old+1) = 101\n",
			"  1100 ms    callback: home was deleted\n",
			"  1100 ms  hits: 7, misses: 3, expired: 2, still there: 1\n",
			"  1550 ms  Get(ann) = 1\n",
			"  1550 ms  Get(bob): absent\n",
			"  1800 ms  Get(ann): absent\n",
			"  2100 ms  sessions ended: 10002, still there: 0\n",
		} {
			require.Contains(t, story, line)
		}
		require.Regexp(t, `\n +2[01]\d ms    callback: news expired, removed \d[\dms.]* after its deadline\n`, story)
		require.Equal(t, 1, strings.Count(story, "home was deleted"))
	})
}
