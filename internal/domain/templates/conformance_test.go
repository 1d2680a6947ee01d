package templates_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/domain/templates"
	"github.com/parley-chat/parley/internal/platform/postgres"
)

// A template that was synced before categories were recorded. docs/conformance.md lists the rule that this test proves.
func TestConformance_CategoryUnknown_FilledByTheNextSync(t *testing.T) {
	t.Parallel()
	ctx, b := setup(t)
	b.create(t, "old", "en_US", "")
	b.sync(t, b.account)
	_, err := postgres.InTx(ctx, b.DB, b.org, func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(ctx, `UPDATE templates SET category = NULL, digest = '' WHERE org_id = @org_id`, nil)
	})
	require.NoError(t, err)
	require.Nil(t, b.all(t, b.account)["old en_US"].Category)
	require.Equal(t, templates.Synced{Updated: 1}, b.sync(t, b.account))
	require.Equal(t, "UTILITY", *b.all(t, b.account)["old en_US"].Category)
}
