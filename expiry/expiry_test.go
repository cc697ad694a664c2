package expiry_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheelcache/wheelcache/expiry"
)

const (
	minInt = math.MinInt64
	maxInt = math.MaxInt64
)

func Test_deadlines_saturate_instead_of_wrapping_around(t *testing.T) {
	for _, c := range []struct {
		now  int64
		ttl  time.Duration
		want int64
	}{
		{0, 0, 0},
		{0, 1, 1},
		{0, -1, -1},
		{5, -5, 0},
		{-5, 5, 0},
		{100, 23, 123},
		{0, maxInt - 1, maxInt - 1},
		{1, maxInt - 1, expiry.NoDeadline},
		{2, maxInt - 1, expiry.NoDeadline},
		{-1, maxInt - 1, maxInt - 2},
		{maxInt - 1, 1, expiry.NoDeadline},
		{maxInt - 1, 2, expiry.NoDeadline},
		{maxInt - 2, 1, maxInt - 1},
		{maxInt - 1, -1, maxInt - 2},
		{maxInt, 1, expiry.NoDeadline},
		{maxInt, 0, maxInt},
		{maxInt, minInt, -1},
		{minInt, 0, minInt},
		{minInt, 1, minInt + 1},
		{minInt, -1, minInt},
		{minInt + 1, -1, minInt},
		{minInt + 1, -2, minInt},
		{minInt, minInt, minInt},
		{minInt, maxInt - 1, -2},
		{-1, minInt, minInt},
		{0, minInt, minInt},
		{1, minInt, minInt + 1},
	} {
		require.Equal(t, c.want, expiry.Deadline(c.now, c.ttl), "%d + %d", c.now, int64(c.ttl))
	}
}

func Test_never_leads_to_no_deadline_whenever_it_begins(t *testing.T) {
	for _, now := range []int64{minInt, minInt + 1, -1, 0, 1, maxInt - 1, maxInt} {
		require.Equal(t, expiry.NoDeadline, expiry.Deadline(now, expiry.Never), "now %d", now)
		require.Equal(t, expiry.Never, expiry.Remaining(expiry.NoDeadline, now), "now %d", now)
	}
}

func Test_entry_is_expired_from_the_instant_of_its_deadline(t *testing.T) {
	for _, deadline := range []int64{minInt + 1, -1, 0, 1, 1e18, maxInt - 1} {
		require.False(t, expiry.Expired(deadline, deadline-1), "before %d", deadline)
		require.True(t, expiry.Expired(deadline, deadline), "at %d", deadline)
		require.True(t, expiry.Expired(deadline, deadline+1), "after %d", deadline)
	}
	require.False(t, expiry.Expired(expiry.NoDeadline, maxInt-1))
	require.True(t, expiry.Expired(minInt, minInt))
}

func Test_remaining_saturates(t *testing.T) {
	for _, c := range []struct {
		deadline, now int64
		want          time.Duration
	}{
		{0, 0, 0},
		{1, 0, 1},
		{0, 1, -1},
		{5, 3, 2},
		{-3, -5, 2},
		{maxInt - 1, 0, maxInt - 1},
		{maxInt - 1, -1, maxInt},
		{maxInt - 1, -2, maxInt},
		{maxInt - 1, minInt, maxInt},
		{maxInt - 1, maxInt - 1, 0},
		{maxInt - 1, maxInt, -1},
		{0, minInt, maxInt},
		{0, minInt + 1, maxInt},
		{-1, minInt, maxInt},
		{minInt, minInt, 0},
		{minInt, 0, minInt},
		{minInt, 1, minInt},
		{minInt, -1, minInt + 1},
		{minInt, maxInt, minInt},
		{-1, maxInt, minInt},
		{-2, maxInt, minInt},
		{0, maxInt, minInt + 1},
	} {
		require.Equal(t, c.want, expiry.Remaining(c.deadline, c.now), "%d - %d", c.deadline, c.now)
	}
}

func Test_policies_answer(t *testing.T) {
	const ttl, left = time.Minute, 7 * time.Second
	byValue := func(_ string, v int) time.Duration { return time.Duration(v) * time.Hour }
	for name, c := range map[string]struct {
		policy               expiry.Policy[string, int]
		create, update, read time.Duration
		traits               expiry.Traits
	}{
		"AfterCreate": {expiry.AfterCreate[string, int](ttl), ttl, left, left, expiry.Traits{ReadKeeps: true}},
		"AfterWrite":  {expiry.AfterWrite[string, int](ttl), ttl, ttl, left, expiry.Traits{UpdateCreates: true, ReadKeeps: true}},
		"AfterAccess": {expiry.AfterAccess[string, int](ttl), ttl, ttl, ttl, expiry.Traits{UpdateCreates: true}},
		"Func":        {expiry.Func(byValue), 3 * time.Hour, 3 * time.Hour, left, expiry.Traits{UpdateCreates: true, ReadKeeps: true}},
		"never":       {expiry.AfterWrite[string, int](expiry.Never), expiry.Never, expiry.Never, left, expiry.Traits{UpdateCreates: true, ReadKeeps: true}},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, expiry.Validate(c.policy))
			require.Equal(t, c.create, c.policy.Create("k", 3))
			require.Equal(t, c.update, c.policy.Update("k", 3, left))
			require.Equal(t, c.read, c.policy.Read("k", 3, left))
			require.Equal(t, c.traits, expiry.TraitsOf(c.policy))
		})
	}
}

// What a policy claims of itself must be what it answers.
func Test_traits_are_true(t *testing.T) {
	byKey := func(k, v int) time.Duration { return time.Duration(k*10 + v) }
	for name, p := range map[string]expiry.Policy[int, int]{
		"AfterCreate":           expiry.AfterCreate[int, int](5),
		"AfterWrite":            expiry.AfterWrite[int, int](5),
		"AfterAccess":           expiry.AfterAccess[int, int](5),
		"Func":                  expiry.Func(byKey),
		"JitterBy":              expiry.JitterBy(expiry.Func(byKey), 0.5, "a"),
		"JitterBy, AfterAccess": expiry.JitterBy(expiry.AfterAccess[int, int](6), 0.5, "a"), // 5 may be what remains, which is kept
		"Limit":                 expiry.Limit(expiry.Func(byKey), 20),
		"Limit, AfterCreate":    expiry.Limit(expiry.AfterCreate[int, int](5), 2),
	} {
		traits := expiry.TraitsOf(p)
		for k := range 5 {
			for v := range 5 {
				for _, remaining := range []time.Duration{1, 5, 1000, expiry.Never} {
					if traits.UpdateCreates {
						require.Equal(t, p.Create(k, v), p.Update(k, v, remaining), name)
					}
					if traits.ReadKeeps {
						require.Equal(t, remaining, p.Read(k, v, remaining), name)
					}
				}
			}
		}
	}
}

func Test_impossible_policies_are_refused(t *testing.T) {
	write := expiry.AfterWrite[string, int](time.Minute)
	for want, p := range map[string]expiry.Policy[string, int]{
		"expiry.AfterCreate: the lifetime is 0s; it must be more than 0, or expiry.Never":                       expiry.AfterCreate[string, int](0),
		"expiry.AfterWrite: the lifetime is -1ns; it must be more than 0, or expiry.Never":                      expiry.AfterWrite[string, int](-1),
		"expiry.AfterAccess: the lifetime is -1m0s; it must be more than 0, or expiry.Never":                    expiry.AfterAccess[string, int](-time.Minute),
		"expiry.AfterWrite: the lifetime is -2562047h47m16.854775808s; it must be more than 0, or expiry.Never": expiry.AfterWrite[string, int](minInt),
		"expiry.Func: the function is nil; it must answer a lifetime for a key and a value":                     expiry.Func[string, int](nil),

		"expiry.Jitter: the policy is nil; it must be one that gives the lifetimes to shorten":        expiry.Jitter[string, int](nil, 0.1),
		"expiry.Jitter: the fraction is 0; it must be more than 0 and less than 1":                    expiry.Jitter(write, 0),
		"expiry.Jitter: the fraction is -0.1; it must be more than 0 and less than 1":                 expiry.Jitter(write, -0.1),
		"expiry.Jitter: the fraction is 1; it must be more than 0 and less than 1":                    expiry.Jitter(write, 1),
		"expiry.Jitter: the fraction is NaN; it must be more than 0 and less than 1":                  expiry.Jitter(write, math.NaN()),
		"expiry.Jitter: the fraction is +Inf; it must be more than 0 and less than 1":                 expiry.Jitter(write, math.Inf(1)),
		"expiry.JitterBy: the identity is empty; it must be the name of a member, which no other has": expiry.JitterBy(write, 0.1, ""),
		"expiry.JitterBy: the policy is nil; it must be one that gives the lifetimes to shorten":      expiry.JitterBy[string, int](nil, 0.1, "a"),
		"expiry.JitterBy: the fraction is 2; it must be more than 0 and less than 1":                  expiry.JitterBy(write, 2, "a"),
		"expiry.Limit: the policy is nil; it must be one that gives the lifetimes to bound":           expiry.Limit[string, int](nil, time.Hour),
		"expiry.Limit: the greatest age is 0s; it must be more than 0, or expiry.Never":               expiry.Limit(write, 0),
		"expiry.Limit: the greatest age is -1ns; it must be more than 0, or expiry.Never":             expiry.Limit(write, -1),
		"expiry.AfterCreate: the lifetime is -1ns; it must be more than 0, or expiry.Never":           expiry.Jitter(expiry.AfterCreate[string, int](-1), 0.1),
		"expiry.AfterWrite: the lifetime is -2ns; it must be more than 0, or expiry.Never":            expiry.JitterBy(expiry.AfterWrite[string, int](-2), 0.1, "a"),
		"expiry.AfterAccess: the lifetime is -3ns; it must be more than 0, or expiry.Never":           expiry.Limit(expiry.Jitter(expiry.AfterAccess[string, int](-3), 0.1), time.Hour),
	} {
		require.EqualError(t, expiry.Validate(p), want)
	}
	for _, p := range []expiry.Policy[string, int]{
		expiry.AfterCreate[string, int](1),
		expiry.AfterWrite[string, int](expiry.Never),
		expiry.AfterAccess[string, int](expiry.Never - 1),
		expiry.Jitter(write, math.SmallestNonzeroFloat64),
		expiry.Jitter(write, largest),
		expiry.JitterBy(write, 0.1, " "),
		expiry.Limit(write, 1),
		expiry.Limit(write, expiry.Never),
		expiry.Limit(expiry.Jitter[string, int](plain{}, 0.1), time.Hour),
	} {
		require.NoError(t, expiry.Validate(p))
	}
}

// plain is a Policy with no more than the methods that it must have.
type plain struct{}

func (plain) Create(string, int) time.Duration                { return 1 }
func (plain) Update(string, int, time.Duration) time.Duration { return 2 }
func (plain) Read(string, int, time.Duration) time.Duration   { return 3 }

func Test_policy_need_neither_validate_nor_claim_anything(t *testing.T) {
	require.NoError(t, expiry.Validate[string, int](plain{}))
	require.Zero(t, expiry.TraitsOf[string, int](plain{}))
}
