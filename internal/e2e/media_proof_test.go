package e2e_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/proof"
)

// peakMemory is the most memory that a process has had, in MiB.
func peakMemory(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	require.NotNil(t, found)
	kilobytes, err := strconv.Atoi(string(found[1]))
	require.NoError(t, err)
	return kilobytes >> 10
}

// TestMedia_LargeFiles_StoredWithoutMemory has a person send large documents at once. Each is stored whole, and
// the process (with the simulator in it) needs no more memory for many than for one.
func TestMedia_LargeFiles_StoredWithoutMemory(t *testing.T) {
	t.Parallel()
	i, process := newInbox(t, newFixture(t).missingDatabase(t))
	count, size := proof.Sized(4, 50), proof.Sized(3<<20, 100<<20)
	send := func(seed int) string {
		return i.writes("inbound", "document", fmt.Sprintf(`{"size":%d,"seed":%d,"filename":"large %d.bin","mime_type":"application/pdf"}`, size, seed, seed))
	}
	require.NotNil(t, i.told("message.received", send(0))["svc"].(map[string]any)["media_url"])
	one := peakMemory(t, process.Pid())
	var sent []string
	for seed := range count {
		sent = append(sent, send(seed+1))
	}
	for _, id := range sent {
		event := i.told("message.received", id)
		known := event["svc"].(map[string]any)
		file := event["entry"].([]any)[0].(map[string]any)["changes"].([]any)[0].(map[string]any)["value"].(map[string]any)["messages"].([]any)[0].(map[string]any)["document"].(map[string]any)
		if proof.Full() && known["media_url"] == nil {
			continue // it took longer than a minute: as decided, the event came without it
		}
		require.NotNil(t, known["media_url"])
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, known["media_url"].(string), http.NoBody)
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		sum := sha256.New()
		read, err := io.Copy(sum, response.Body)
		_ = response.Body.Close()
		require.NoError(t, err)
		require.EqualValues(t, size, read)
		require.Equal(t, file["sha256"], base64.StdEncoding.EncodeToString(sum.Sum(nil)))
	}
	many := peakMemory(t, process.Pid())
	t.Logf("peak memory after one file of %d MiB: %d MiB, after %d more: %d MiB", size>>20, one, count, many)
	if proof.Full() {
		require.Less(t, many, one+150, "MiB")
	}
}
