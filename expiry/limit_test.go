package expiry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache/expiry"
)

func Test_limit_bounds_what_a_stored_value_is_given(t *testing.T) {
	for _, c := range []struct{ ttl, maxAge, want time.Duration }{
		{time.Minute, time.Hour, time.Minute},
		{time.Hour, time.Hour, time.Hour},
		{time.Hour + 1, time.Hour, time.Hour},
		{expiry.Never, time.Hour, time.Hour},
		{expiry.Never, expiry.Never, expiry.Never},
		{time.Hour, expiry.Never, time.Hour},
		{time.Hour, 1, 1},
		{0, time.Hour, 0},
		{-1, time.Hour, -1},
	} {
		p := expiry.Limit(expiry.Policy[string, int](answering{c.ttl, c.ttl, c.ttl}), c.maxAge)
		require.Equal(t, c.want, p.Create("k", 1), "%v, limit %v", c.ttl, c.maxAge)
		require.Equal(t, c.want, p.Update("k", 1, 7), "%v, limit %v", c.ttl, c.maxAge)
		require.Equal(t, c.ttl, p.Read("k", 1, 7), "what is left of the life is for the cache to know")
		require.Equal(t, c.maxAge, expiry.TraitsOf(p).MaxAge)
	}
}

func Test_limit_keeps_a_deadline_that_the_policy_keeps(t *testing.T) {
	p := expiry.Limit(expiry.AfterCreate[string, int](time.Minute), time.Hour)
	for _, remaining := range []time.Duration{1, time.Minute, time.Hour} {
		require.Equal(t, remaining, p.Update("k", 1, remaining))
		require.Equal(t, remaining, p.Read("k", 1, remaining))
	}
}

func Test_limit_adds_its_greatest_age_to_the_traits(t *testing.T) {
	for _, c := range []struct {
		policy expiry.Policy[string, int]
		want   expiry.Traits
	}{
		{plain{}, expiry.Traits{}},
		{expiry.AfterWrite[string, int](1), expiry.Traits{UpdateCreates: true, ReadKeeps: true}},
		{expiry.AfterAccess[string, int](1), expiry.Traits{UpdateCreates: true}},
		{expiry.Jitter(expiry.AfterAccess[string, int](1), 0.5), expiry.Traits{UpdateCreates: true}},
		{expiry.Limit(expiry.AfterAccess[string, int](1), time.Hour), expiry.Traits{UpdateCreates: true}},
		{expiry.Limit(expiry.AfterAccess[string, int](1), time.Hour+1), expiry.Traits{UpdateCreates: true}},
	} {
		c.want.MaxAge = time.Hour
		require.Equal(t, c.want, expiry.TraitsOf(expiry.Limit(c.policy, time.Hour)))
	}
	shorter := expiry.Limit(expiry.Limit(expiry.AfterAccess[string, int](1), time.Minute), time.Hour)
	require.Equal(t, time.Minute, expiry.TraitsOf(shorter).MaxAge)
}
