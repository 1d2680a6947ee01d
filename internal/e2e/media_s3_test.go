package e2e_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/proc"
	"github.com/parley-chat/parley/internal/testkit/proof"
)

const s3Key, s3Secret = "access", "NeverToBeSeen-s3-secret"

// serveS3 starts an S3-compatible server with a bucket `media` and returns its address: a fake in CI,
// versitygw in a proof, which takes minutes to build.
func serveS3(t *testing.T) (address string) {
	t.Helper()
	if !proof.Full() {
		files := s3mem.New()
		require.NoError(t, files.CreateBucket("media"))
		server := httptest.NewServer(gofakes3.New(files).Server())
		t.Cleanup(server.Close)
		return server.Listener.Addr().String()
	}
	program, err := exec.Command("../../scripts/tool.sh", "versitygw").Output()
	require.NoError(t, err)
	directory := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(directory, "media"), 0o700)) // a bucket
	address = proc.FreeAddress(t)
	server := exec.Command(strings.TrimSpace(string(program)), "--access", s3Key, "--secret", s3Secret, "--region", "eu-west-1",
		"--port", address, "posix", directory)
	require.NoError(t, server.Start())
	t.Cleanup(func() { _, _ = server.Process.Kill(), server.Wait() })
	proc.Eventually(t, proc.Patience, "the S3 server listens", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return address
}

// newS3Inbox has a `parley dev` whose files go to an S3 server behind a proxy.
func newS3Inbox(t *testing.T) (*inbox, *proc.Process, *proc.Proxy) {
	t.Helper()
	way, listen := proc.NewProxy(t, serveS3(t)), proc.FreeAddress(t)
	i, process := newInbox(t, newFixture(t).missingDatabase(t), proc.Settings{
		"PARLEY_MEDIA_BUCKET": "s3://media?region=eu-west-1&use_path_style=true&endpoint=http://" + way.Address,
		"PARLEY_MEDIA_LISTEN": listen, "PARLEY_MEDIA_BASE_URL": "http://" + listen,
		"AWS_ACCESS_KEY_ID": s3Key, "AWS_SECRET_ACCESS_KEY": s3Secret, "AWS_EC2_METADATA_DISABLED": "true",
	})
	return i, process, way
}

// picture has a person send a picture of 1 MB and returns its event.
func (i *inbox) picture() map[string]any {
	i.t.Helper()
	return i.told("message.received", i.writes("inbound", "image", `{"size":1000000,"seed":7,"mime_type":"image/jpeg"}`))["svc"].(map[string]any)
}

// fetch reads a file by its URL.
func (i *inbox) fetch(ctx context.Context, url string) (status int, body []byte) {
	i.t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	require.NoError(i.t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(i.t, err)
	defer func() { _ = response.Body.Close() }()
	body, err = io.ReadAll(response.Body)
	require.NoError(i.t, err)
	return response.StatusCode, body
}

// TestMedia_BucketAway_EventComesWithoutFile stores files at an S3 server that answers, that is slow, and that is
// away: then the event comes without the file, and the file is stored when the server is back.
func TestMedia_BucketAway_EventComesWithoutFile(t *testing.T) {
	t.Parallel()
	i, _, way := newS3Inbox(t)
	known := i.picture()
	require.Equal(t, "ready", known["media_status"])
	status, first := i.fetch(t.Context(), known["media_url"].(string))
	require.Equal(t, http.StatusOK, status)
	require.Len(t, first, 1_000_000)

	way.Delay(time.Second)
	known = i.picture()
	require.Equal(t, "ready", known["media_status"], "the event waits for a slow bucket")
	way.Delay(0)
	_, second := i.fetch(t.Context(), known["media_url"].(string))
	require.True(t, bytes.Equal(first, second), "the simulator makes the same file of one seed")

	way.Off()
	known = i.picture()
	require.Nil(t, known["media_url"], "after three tries the event does not wait any longer")
	require.Nil(t, known["media_status"])
	path := "/" + i.ready["phone_number_id"] + "/messages/" + known["message_id"].(string)
	i.do(http.StatusNotFound, http.MethodGet, path+"/media", "")
	require.Equal(t, "pending", i.message(known["message_id"].(string))["media"].(map[string]any)["status"])

	if !proof.Full() {
		return // the next try comes after a minute
	}
	way.On(t)
	proc.Eventually(t, 3*proc.Patience, "the file is stored", func() bool {
		time.Sleep(200 * time.Millisecond)
		return i.message(known["message_id"].(string))["media"].(map[string]any)["status"] == "ready"
	})
	followed := i.do(http.StatusOK, http.MethodGet, path+"/media", "")
	require.True(t, bytes.Equal(first, followed.body))
	require.Len(t, i.hook.about("message.received", known["message_id"].(string)), 1, "there is no second event")
}
