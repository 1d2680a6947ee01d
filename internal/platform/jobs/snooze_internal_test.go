package jobs

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// A job that is cut off at the end of its time must not be snoozed for ever, although the database reports that as an error
// that passes.
func TestPassing_OnlyErrorsOfTheDatabaseWithinTheTimeOfTheJob(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	unavailable := fault.Unavailable(time.Second, errors.New("lock timeout"))
	for name, one := range map[string]struct {
		err    error
		passes bool
	}{
		"lock timeout":                 {unavailable, true},
		"commit without an answer":     {fault.OutcomeUnknown(postgres.ErrUnanswered), true},
		"organization is moved":        {fault.Moving(postgres.ErrNotOpenHere), false},
		"other error":                  {errors.New("a bug"), false},
		"put back by the work (Later)": {Later(0), false},
		"no error":                     {nil, false},
		"error of the provider":        {fault.New(fault.ProviderUpstreamError, "no"), false},
	} {
		_, passes := errors.AsType[*passingError](passing(t.Context(), one.err))
		require.Equal(t, one.passes, passes, name)
		require.ErrorIs(t, passing(t.Context(), one.err), one.err, name)
		_, passes = errors.AsType[*passingError](passing(over, one.err))
		require.False(t, passes, "%s, after the time of the job", name)
	}
}
