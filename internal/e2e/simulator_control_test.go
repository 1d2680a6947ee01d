package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/canary"
	"github.com/parley-chat/parley/internal/testkit/proc"
)

// simulatorControl controls a simulator that runs as a process of its own.
type simulatorControl struct{ simulator string }

func newSimulatorControl(t *testing.T) simulatorControl {
	t.Helper()
	return simulatorControl{"http://" + proc.FreeAddress(t)}
}

// startSimulator starts the process. Its callbacks go to a URL.
func (c simulatorControl) startSimulator(t *testing.T, settings proc.Settings, callbackURL string) *proc.Process {
	t.Helper()
	started := proc.Start(t, settings, "simulator", "--addr", c.simulator[len("http://"):], "--token", canary.Token, "--callback-url", callbackURL)
	proc.Eventually(t, proc.Patience, "the simulator listens", func() bool {
		_, err := c.control(t.Context(), http.MethodGet, "stats", nil)
		return err == nil
	})
	return started
}

// control calls the simulator's control API.
func (c simulatorControl) control(ctx context.Context, method, path string, body any) (map[string]any, error) {
	encoded, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, c.simulator+"/sim/"+path, bytes.NewReader(encoded))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= http.StatusMultipleChoices {
		return nil, fmt.Errorf("%s: %d %s: %w", path, response.StatusCode, text, err)
	}
	var decoded map[string]any
	_ = json.Unmarshal(text, &decoded) // some answers are lists
	return decoded, nil
}

func (c simulatorControl) set(t *testing.T, path string, body map[string]any) {
	t.Helper()
	_, err := c.control(t.Context(), http.MethodPost, path, body)
	require.NoError(t, err)
}

// connect makes numbers and connects them to an organization, as an operator does. n tells the organizations
// of a test apart.
func (c simulatorControl) connect(t *testing.T, settings proc.Settings, org string, n int) (numbers []string) {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte(canary.Token), 0o600))
	business := fmt.Sprintf("4%014d", n+100)
	c.set(t, "accounts", map[string]any{"id": business})
	for i := range numbersPerOrg {
		number := fmt.Sprintf("1%014d", n*numbersPerOrg+i+100)
		c.set(t, "numbers", map[string]any{"id": number, "waba_id": business})
		connected := proc.Run(t, settings, "admin", "--json", "account", "connect", "--org", org, "--phone-number-id", number,
			"--business-account-id", business, "--token-file", token)
		require.Equal(t, 0, connected.Code, connected.Stderr)
		numbers = append(numbers, number)
	}
	return numbers
}

// writes has a person write to a number, and returns the provider's id of the message.
func (c simulatorControl) writes(ctx context.Context, number, person string) (id string, err error) {
	made, err := c.control(ctx, http.MethodPost, "inbound", map[string]any{
		"phone_number_id": number, "from": person, "type": "text", "text": map[string]any{"body": "Is my order ready?"},
	})
	id, _ = made["id"].(string)
	return id, err
}

// idle tells that the simulator has posted every callback.
func (c simulatorControl) idle(t *testing.T) bool {
	t.Helper()
	stats, err := c.control(t.Context(), http.MethodGet, "stats", nil)
	require.NoError(t, err)
	return stats["waiting"] == 0.0 && stats["scheduled"] == 0.0
}

// awaitQuiet waits until nothing is sent, posted or applied any more; rows counts what waits in lanes. The
// lanes are asked before and after the simulator: sends that wait make callbacks, and callbacks wait in lanes.
func (c simulatorControl) awaitQuiet(t *testing.T, rows func() int) {
	t.Helper()
	proc.Eventually(t, 5*proc.Patience, "all callbacks are posted and applied", func() bool {
		time.Sleep(100 * time.Millisecond)
		return rows() == 0 && c.idle(t) && rows() == 0
	})
}
