package together_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/together"
)

// A caller may give up at the moment of its answer. The race detector fails this test if the caller reads the answer then.
func TestAsk_CallerGivesUp_AnswerIsNotRead(t *testing.T) {
	t.Parallel()
	for range 100 {
		ctx, giveUp := context.WithCancel(t.Context())
		ended := make(chan struct{})
		asker := together.New(1, 1, func(_ context.Context, asked []int) ([]int, error) {
			defer close(ended)
			<-ctx.Done()
			return asked, nil
		})
		go giveUp()
		answer, err := asker.Ask(ctx, 7)
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
			require.Zero(t, answer)
		}
		<-ended
	}
}
