package receiver

import (
	"bytes"
	_ "embed" // for the verifier
	"encoding/json"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

//go:embed node/verify.mjs
var verifier []byte

// Recorded is a request together with the secrets that were active when it was sent.
type Recorded struct {
	Request

	Secrets []string
}

// Verified is what the implementation in Node found.
type Verified struct {
	Total    int `json:"total"`
	Verified int `json:"verified"`
	// SegmentMismatches counts deliveries whose number of v1 is not that of the active secrets.
	SegmentMismatches int `json:"segment_mismatches"`
	// ForeignSegments counts v1 that no active secret made, such as those of a revoked one.
	ForeignSegments int `json:"foreign_segments"`
	// Signed256 counts the deliveries that carried X-Svc-Signature-256; each is verified too.
	Signed256 int `json:"signed_256"`
	Failed    int `json:"failed"`
	// Failures are the first hundred.
	Failures []Failure `json:"failures"`
}

// Failure is one delivery that did not verify.
type Failure struct {
	Line       int    `json:"line"`
	DeliveryID string `json:"delivery_id"`
	Step       string `json:"step"`
	Detail     string `json:"detail"`
}

// line is what node/verify.mjs reads.
type line struct {
	Headers map[string]string `json:"headers"`
	Body    []byte            `json:"body"` // base64
	Secrets []string          `json:"secrets"`
	At      int64             `json:"at"`
}

// VerifyWithNode checks each delivery with the implementation in Node, which shares no
// code with ours; tolerance is the usual 300 seconds around the arrival.
func VerifyWithNode(t testing.TB, recorded iter.Seq[Recorded]) Verified {
	t.Helper()
	script := filepath.Join(t.TempDir(), "verify.mjs")
	require.NoError(t, os.WriteFile(script, verifier, 0o600))
	command := exec.CommandContext(t.Context(), "node", script)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	input, err := command.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start(), "the independent verification needs Node")
	encoder := json.NewEncoder(input)
	for delivery := range recorded {
		headers := map[string]string{}
		for name := range delivery.Header {
			headers[name] = delivery.Header.Get(name)
		}
		if err = encoder.Encode(line{Headers: headers, Body: delivery.Body, Secrets: delivery.Secrets, At: delivery.At.Unix()}); err != nil {
			break
		}
	}
	_ = input.Close()
	require.NoError(t, command.Wait(), "%s", &stderr)
	require.NoError(t, err)
	var found Verified
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &found))
	return found
}
