package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The README says how many operations of the contract are served. The served document marks those that are not.
func TestReadme_ServedOperations_AreCounted(t *testing.T) {
	t.Parallel()
	response, err := http.Get(newFixture(t).api.URL + "/v1/openapi.json")
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	var contract struct {
		Paths map[string]map[string]json.RawMessage
	}
	require.NoError(t, json.NewDecoder(response.Body).Decode(&contract))
	all, served := 0, 0
	for _, path := range contract.Paths {
		for _, raw := range path {
			var operation map[string]any
			if json.Unmarshal(raw, &operation) != nil || operation["operationId"] == nil {
				continue // the parameters of the path
			}
			if all++; operation["x-served"] != false {
				served++
			}
		}
	}
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), fmt.Sprintf("%d of its %d operations are served", served, all))
}
