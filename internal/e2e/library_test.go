package e2e_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/parley-chat/parley/internal/testkit/proc"
	"github.com/parley-chat/parley/internal/testkit/proof"
)

const formHead = "--edge\r\nContent-Disposition: form-data; name=\"file\"; filename=\"large.pdf\"\r\n\r\n%PDF-1.7\n"

const formTail = "\r\n--edge--\r\n"

// document is a form with a PDF of that size, whose content is made while it is read.
func document(size int, seed uint64) (form io.Reader, length int64, sum hash.Hash) {
	sum = sha256.New()
	_, _ = io.WriteString(sum, "%PDF-1.7\n")
	made := io.TeeReader(io.LimitReader(rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}), int64(size-len("%PDF-1.7\n"))), sum)
	return io.MultiReader(strings.NewReader(formHead), made, strings.NewReader(formTail)),
		int64(len(formHead) - len("%PDF-1.7\n") + size + len(formTail)), sum
}

// errNoPlace means that an upload waited for its place for a minute, and is to be repeated.
var errNoPlace = errors.New("no place for the upload")

// uploads sends a document to POST /media and returns the library file. The checksum is that of its content.
func (i *inbox) uploads(size int, seed uint64) (file map[string]any, sum []byte, err error) {
	form, length, content := document(size, seed)
	request, err := http.NewRequestWithContext(i.t.Context(), http.MethodPost, i.ready["base_url"]+"/media", form)
	if err != nil {
		return nil, nil, err
	}
	request.ContentLength = length
	request.Header.Set("Authorization", "Bearer "+i.ready["api_key"])
	request.Header.Set("Content-Type", "multipart/form-data; boundary=edge")
	response, err := (&http.Client{Timeout: 10 * proc.Patience}).Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if response.StatusCode == http.StatusServiceUnavailable {
		return nil, nil, fmt.Errorf("%w: %s", errNoPlace, text)
	}
	if err != nil || response.StatusCode != http.StatusCreated {
		return nil, nil, fmt.Errorf("%d %s %w", response.StatusCode, text, err)
	}
	var body struct{ Data map[string]any }
	err = json.Unmarshal(text, &body)
	return body.Data, content.Sum(nil), err
}

// TestLibrary_ParallelUploads_FlatMemory uploads many large files at once, to a directory and to an S3 server. The
// process needs no more memory for many than for a few.
func TestLibrary_ParallelUploads_FlatMemory(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) (*inbox, *proc.Process){
		"files": func(t *testing.T) (*inbox, *proc.Process) { return newInbox(t, newFixture(t).missingDatabase(t)) },
		"S3": func(t *testing.T) (*inbox, *proc.Process) {
			i, process, _ := newS3Inbox(t)
			return i, process
		},
	} {
		t.Run(name, func(t *testing.T) {
			i, process := open(t)
			count, size := proof.Sized(8, 50), proof.Sized(20<<20, 100<<20)
			_, _, err := i.uploads(size, 0)
			require.NoError(t, err)
			one := peakMemory(t, process.Pid())
			var group errgroup.Group
			for n := range count {
				group.Go(func() error {
					file, sum, err := i.uploads(size, uint64(n+1))
					for try := 1; errors.Is(err, errNoPlace) && try < 5; try++ { // the machine stores less than 80 MiB a second
						file, sum, err = i.uploads(size, uint64(n+1))
					}
					if err != nil {
						return err
					}
					return i.same(file, sum)
				})
			}
			require.NoError(t, group.Wait())
			many := peakMemory(t, process.Pid())
			t.Logf("%s: peak memory after one file of %d MiB: %d MiB, after %d at once: %d MiB", name, size>>20, one, count, many)
			require.Less(t, many, one+proof.Sized(150, 250), "MiB")
			require.Len(t, i.library(), count+1)
			require.NotContains(t, process.Log(t), "SDK ", "the log has lines of the S3 client")
		})
	}
}

// same compares the stored file with what was uploaded.
func (i *inbox) same(file map[string]any, sum []byte) error {
	request, err := http.NewRequestWithContext(i.t.Context(), http.MethodGet, file["url"].(string), http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	stored := sha256.New()
	if _, err := io.Copy(stored, response.Body); err != nil {
		return err
	}
	if string(stored.Sum(nil)) != string(sum) {
		return fmt.Errorf("%s is not what was uploaded", file["id"])
	}
	return nil
}

// library lists the library files.
func (i *inbox) library() []any {
	i.t.Helper()
	var body struct{ Data []any }
	require.NoError(i.t, json.Unmarshal(i.do(http.StatusOK, http.MethodGet, "/media?limit=100", "").body, &body))
	return body.Data
}

// TestLibrary_ClientStalls_NothingLeftBehind has clients that stop in the middle of a file, and keep the connection.
func TestLibrary_ClientStalls_NothingLeftBehind(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	listen := proc.FreeAddress(t)
	i, _ := newInbox(t, newFixture(t).missingDatabase(t), proc.Settings{
		"PARLEY_MEDIA_BUCKET": "file://" + directory, "PARLEY_MEDIA_LISTEN": listen, "PARLEY_MEDIA_BASE_URL": "http://" + listen,
	})
	address := strings.TrimSuffix(strings.TrimPrefix(i.ready["base_url"], "http://"), "/v1")
	var stalled []net.Conn
	for n := range 4 {
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		form, length, _ := document(1<<20, uint64(n))
		part, err := io.ReadAll(io.LimitReader(form, 1<<19))
		require.NoError(t, err)
		_, err = fmt.Fprintf(conn, "POST /v1/media HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"+
			"Content-Type: multipart/form-data; boundary=edge\r\nContent-Length: %d\r\n\r\n%s", address, i.ready["api_key"], length, part)
		require.NoError(t, err)
		stalled = append(stalled, conn)
	}
	// They take all places of the organization: the next upload waits until they are given up, after 30 s.
	_, _, err := i.uploads(1<<20, 9)
	require.NoError(t, err)
	for _, conn := range stalled {
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(proc.Patience)))
		answer := make([]byte, 12)
		_, err := io.ReadFull(conn, answer)
		require.NoError(t, err)
		require.Equal(t, "HTTP/1.1 400", string(answer))
	}
	require.Len(t, i.library(), 1)
	entries, err := os.ReadDir(directory)
	require.NoError(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	require.Len(t, names, 2, "the file and its attributes: %v", names)
}

// TestLibrary_Sent_ArrivesAtThePhone sends a library file through the simulator.
func TestLibrary_Sent_ArrivesAtThePhone(t *testing.T) {
	t.Parallel()
	i, _ := newInbox(t, newFixture(t).missingDatabase(t))
	i.told("message.received", i.writes("inbound", "text", `{"body":"My bill, please"}`))
	file, sum, err := i.uploads(200_000, 1)
	require.NoError(t, err)
	answer := i.do(http.StatusAccepted, http.MethodPost, "/"+i.ready["phone_number_id"]+"/messages",
		fmt.Sprintf(`{"messaging_product":"chat","to":"+15550100001","type":"document","document":{"id":"%s","caption":"Your bill"}}`, file["id"]))
	id := answer.data(t)["id"].(string)
	event := i.told("message.sent", id+":sent")
	message := event["data"].(map[string]any)["message"].(map[string]any)
	require.Equal(t, file["url"], message["media_url"])
	require.NoError(t, i.same(map[string]any{"id": id, "url": message["media_url"]}, sum))
	proc.Eventually(t, proc.Patience, "the message is delivered", func() bool {
		time.Sleep(50 * time.Millisecond)
		return i.message(id)["status"] == "read" || i.message(id)["status"] == "delivered"
	})
}
