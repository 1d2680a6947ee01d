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
		ctx    context.Context
		err    error
		passes bool
	}{
		"lock timeout":                 {t.Context(), unavailable, true},
		"commit without an answer":     {t.Context(), fault.OutcomeUnknown(postgres.ErrUnanswered), true},
		"lock timeout after the time":  {over, unavailable, false},
		"organization is moved":        {t.Context(), fault.Moving(postgres.ErrNotOpenHere), false},
		"other error":                  {t.Context(), errors.New("a bug"), false},
		"put back by the work (Later)": {t.Context(), Later(0), false},
		"no error":                     {t.Context(), nil, false},
		"error of the provider":        {t.Context(), fault.New(fault.ProviderUpstreamError, "no"), false},
	} {
		_, passes := errors.AsType[*passingError](passing(one.ctx, one.err))
		require.Equal(t, one.passes, passes, name)
		require.ErrorIs(t, passing(one.ctx, one.err), one.err, name)
	}
}
