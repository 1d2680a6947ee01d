package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// docs/conformance.md lists the rules that these tests prove.

func TestConformance_Admin_RestoresACustomer(t *testing.T) {
	t.Parallel()
	o := newOperator(t, "platform")
	key := o.object("key", "create", "--name", "server")["api_key"].(string)
	made := o.requireAnswer(key, call{method: http.MethodPost, path: "/customers", body: `{"name":"Bay"}`}, http.StatusCreated, "").data(t)
	path := "/customers/" + made["id"].(string)
	o.requireAnswer(key, call{method: http.MethodPatch, path: path, body: `{"status":"suspended"}`}, http.StatusOK, "")
	o.requireAnswer(key, call{method: http.MethodDelete, path: path}, http.StatusOK, "")
	restored := o.object("customer", "restore", "--customer", made["id"].(string))
	require.Equal(t, map[string]any{"id": made["id"], "name": "Bay", "status": "suspended"}, restored)
	shown := o.requireAnswer(key, call{method: http.MethodGet, path: path}, http.StatusOK, "").data(t)
	require.Equal(t, []any{"suspended", nil}, []any{shown["status"], shown["archived_at"]})
	require.Equal(t, "customer.restored", o.list("audit", "list")[0]["action"])
	require.Contains(t, o.refused("customer", "restore", "--customer", "x"), "--customer")
}

func TestConformance_OperatorEndpoints_OnTheirListener(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	server := f.serve(t, nil)
	for path, words := range map[string]string{"/healthz": "", "/readyz": "ready", "/metrics": "parley_"} {
		got, err := server.ask(t.Context(), path)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, got.status, path)
		require.Contains(t, string(got.body), words, path)
		public := server.client("")
		public.base = strings.TrimSuffix(public.base, "/v1")
		refused, err := public.get(t.Context(), path)
		require.NoError(t, err)
		require.NotEqual(t, http.StatusOK, refused.status, "%s is not on the public listener", path)
	}
}
