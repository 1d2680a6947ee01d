package api_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/bucket"
	"github.com/parley-chat/parley/internal/platform/postgres"
	"github.com/parley-chat/parley/internal/testkit/apitest"
	"github.com/parley-chat/parley/internal/testkit/factory"
)

// Files start with what their types are detected by.
var (
	jpeg = "\xff\xd8\xff\xe0\x00\x10JFIF\x00"
	png  = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
	pdf  = "%PDF-1.7\n"
	mp4  = "\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom"
	gp3  = "\x00\x00\x00\x18ftyp3gp5\x00\x00\x00\x003gp5isom"
	m4a  = "\x00\x00\x00\x18ftypM4A \x00\x00\x00\x00M4A isom"
	mp3  = "\xff\xfb\x90\x64\x00\x00"
	amr  = "#!AMR\n"
	aac  = "\xff\xf1\x50\x80\x02\x1f\xfc"
	ogg  = "OggS\x00\x02" + strings.Repeat("\x00", 22)
)

// form is a form with a file and fields, and its content type.
func form(t testing.TB, name, data string, fields ...string) (body []byte, contentType string) {
	t.Helper()
	var text bytes.Buffer
	writer := multipart.NewWriter(&text)
	for i := 0; i < len(fields); i += 2 {
		require.NoError(t, writer.WriteField(fields[i], fields[i+1]))
	}
	part, err := writer.CreateFormFile("file", name)
	require.NoError(t, err)
	_, err = io.WriteString(part, data)
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	return text.Bytes(), writer.FormDataContentType()
}

func uploadFile(t testing.TB, client *apitest.Client, name, data string, header ...string) apitest.Answer {
	t.Helper()
	body, contentType := form(t, name, data)
	return client.Post(t, "/media", body, append(header, "Content-Type", contentType)...)
}

// leftBehind counts the objects in the bucket that belong to no file.
func leftBehind(t testing.TB, s *apitest.Server) int {
	t.Helper()
	due, err := postgres.Many[string](t.Context(), s.DB.System("test"), `SELECT key FROM media_deletions`, nil)
	require.NoError(t, err)
	left := 0
	for _, key := range due {
		object, err := s.Files.Get(t.Context(), key)
		if err == nil {
			_ = object.Close()
			left++
		}
	}
	return left
}

func TestMedia_CreateReadListDelete(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	created := uploadFile(t, client, `C:\bills\bill 1.pdf`, pdf+"a bill")
	require.Equal(t, 201, created.Status, "%s", created.Body)
	file := created.Data(t)
	path := "/media/" + file["id"].(string)
	require.Equal(t, "/v1"+path, created.Header.Get("Location"))
	require.Equal(t, map[string]any{
		"id": file["id"], "object": "media", "team_id": client.Team.String(), "type": "document", "mime_type": "application/pdf",
		"size": float64(len(pdf) + 6), "filename": "bill 1.pdf", "url": file["url"], "created_at": "2026-03-14T09:26:53.589Z",
	}, file)
	require.Equal(t, file, client.Get(t, path).Data(t))
	require.Equal(t, []map[string]any{file}, client.Get(t, "/media").List(t))
	key := strings.TrimPrefix(file["url"].(string), factory.MediaURL+"/m/")
	object, err := s.Files.Get(t.Context(), key)
	require.NoError(t, err)
	data, err := io.ReadAll(object)
	require.NoError(t, err)
	require.NoError(t, object.Close())
	require.Equal(t, pdf+"a bill", string(data))
	require.Equal(t, bucket.File{ContentType: "application/pdf", Disposition: `attachment; filename="bill 1.pdf"`}, object.File)

	gone := client.Do(t, "DELETE", path, nil)
	require.Equal(t, map[string]any{"id": file["id"], "object": "media", "deleted": true}, gone.Data(t))
	require.Equal(t, 404, client.Get(t, path).Status)
	require.Equal(t, 404, client.Do(t, "DELETE", path, nil).Status)
	require.Empty(t, client.Get(t, "/media").List(t))
	s.Clock.Move(time.Hour)
	_, err = s.Media.DeleteDue(t.Context())
	require.NoError(t, err)
	require.Zero(t, leftBehind(t, s))
}

func TestMedia_Types_ByContentNeverByName(t *testing.T) {
	t.Parallel()
	client := apitest.New(t).Client(t)
	for _, test := range []struct{ name, data, kind, mimeType string }{
		{"a.jpg", jpeg, "image", "image/jpeg"},
		{"a.jpg", png, "image", "image/png"},
		{"a.jpg", pdf, "document", "application/pdf"},
		{"a.pdf", mp4, "video", "video/mp4"},
		{"a.mp4", gp3, "video", "video/3gpp"},
		{"a", strings.Replace(mp4, "mp42", "MSNV", 1), "video", "video/mp4"},
		{"a", strings.Replace(mp4, "mp42", "M4V ", 1), "video", "video/mp4"},
		{"a.json", `{"a":1}`, "document", "text/plain"},
		{"a.tsv", "a\tb\n1\t2\n", "document", "text/plain"},
		{"a.mp4", m4a, "audio", "audio/mp4"},
		{"a.txt", mp3, "audio", "audio/mpeg"},
		{"a", amr, "audio", "audio/amr"},
		{"a", aac, "audio", "audio/aac"},
		{"a", ogg + "OpusHead\x01\x01", "audio", "audio/ogg"},
		{"a.exe", "Hello, this is a text.", "document", "text/plain"},
		{"a.xlsx", "name,price\nBread,1\nMilk,2\n", "document", "text/plain"},
		{"a", office(t, "word/document.xml"), "document", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
		{"a", office(t, "xl/workbook.xml"), "document", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
		{"a", office(t, "ppt/presentation.xml"), "document", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
	} {
		made := uploadFile(t, client, test.name, test.data)
		require.Equal(t, 201, made.Status, "%s %s", test.mimeType, made.Body)
		require.Equal(t, test.kind, made.Data(t)["type"], test.mimeType)
		require.Equal(t, test.mimeType, made.Data(t)["mime_type"])
	}
	for name, data := range map[string]string{
		"picture.jpg": "<!DOCTYPE html><html><script>alert(1)</script></html>", "program.pdf": "MZ\x90\x00\x03\x00\x00\x00\x04\x00", "a.png": "GIF89a\x01\x00",
		"a.docx": "PK\x03\x04\x14\x00", "a.svg": `<svg xmlns="http://www.w3.org/2000/svg"></svg>`, "a.ogg": ogg + "\x01vorbis\x00\x00", "empty.pdf": "",
	} {
		requireRefusal(t, refusal{400, "invalid_request_error", "invalid_field_value", "file"}, uploadFile(t, client, name, data))
	}
}

// TestMedia_OfficeFileWithLargeFirstPart_StillDetected: a program that streams an Office file may write a large part before the one that
// tells Word from PowerPoint.
func TestMedia_OfficeFileWithLargeFirstPart_StillDetected(t *testing.T) {
	t.Parallel()
	client := apitest.New(t).Client(t)
	for part, kind := range map[string]string{
		"word/document.xml":    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
		"ppt/presentation.xml": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
	} {
		made := uploadFile(t, client, "a", zipped(t, "[Content_Types].xml", "docProps/thumbnail.jpeg", part))
		require.Equal(t, 201, made.Status, "%s", made.Body)
		require.Equal(t, kind, made.Data(t)["mime_type"])
	}
	requireRefusal(t, refusal{400, "invalid_request_error", "invalid_field_value", "file"},
		uploadFile(t, client, "a.docx", zipped(t, "[Content_Types].xml", "docProps/thumbnail.jpeg", "notes.txt")))
}

// zipped is a ZIP archive as a stream, in which no header tells a size. Its second file has 5 MiB that cannot be compressed.
func zipped(t testing.TB, names ...string) string {
	t.Helper()
	var text bytes.Buffer
	writer := zip.NewWriter(&text)
	for i, name := range names {
		file, err := writer.Create(name)
		require.NoError(t, err)
		size := 100
		if i == 1 {
			size = 5 << 20
		}
		content := make([]byte, size)
		_, _ = rand.NewChaCha8([32]byte{1}).Read(content)
		_, err = file.Write(content)
		require.NoError(t, err)
	}
	require.NoError(t, writer.Close())
	return text.String()
}

func TestMedia_Limits_ByType(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	for start, limit := range map[string]int{jpeg: 5 << 20, mp3: 16 << 20, mp4: 16 << 20} {
		require.Equal(t, 201, uploadFile(t, client, "a", start+strings.Repeat("x", limit-len(start))).Status)
		requireRefusal(t, refusal{413, "invalid_request_error", "request_too_large", "file"},
			uploadFile(t, client, "a", start+strings.Repeat("x", limit-len(start)+1)))
	}
	require.Zero(t, leftBehind(t, s))
}

func TestMedia_Document_UpTo100MB(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	largest := pdf + strings.Repeat("x", 100<<20-len(pdf))
	require.EqualValues(t, 100<<20, uploadFile(t, client, "a.pdf", largest).Data(t)["size"])
	requireRefusal(t, refusal{413, "invalid_request_error", "request_too_large", "file"}, uploadFile(t, client, "a.pdf", largest+"x"))
	requireRefusal(t, refusal{413, "invalid_request_error", "request_too_large", "file"},
		uploadFile(t, client, "a.pdf", largest+strings.Repeat("x", 1<<20)))
	require.Zero(t, leftBehind(t, s))
}

func TestMedia_Forms_Refused(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	post := func(body []byte, contentType string) apitest.Answer {
		return client.Post(t, "/media", body, "Content-Type", contentType)
	}
	invalid := func(param string) refusal { return refusal{400, "invalid_request_error", "invalid_field_value", param} }
	unsupported := refusal{415, "invalid_request_error", "unsupported_media_type", ""}
	requireRefusal(t, unsupported, post([]byte(`{"file":"x"}`), "application/json"))
	requireRefusal(t, unsupported, post([]byte(pdf), "application/pdf"))
	requireRefusal(t, unsupported, post([]byte(pdf), "multipart/form-data"))
	whole, contentType := form(t, "a.pdf", pdf+strings.Repeat("x", 5_000))
	boundary := contentType[strings.Index(contentType, "=")+1:]
	for _, malformed := range []string{
		string(whole[:len(whole)-100]), "no form", "", "--" + boundary, "--" + boundary + "\r\nContent-Disposition form-data\r\n\r\nx",
	} {
		answer := post([]byte(malformed), contentType)
		requireRefusal(t, invalid("file"), answer)
		require.Contains(t, answer.Error(t)["message"], "multipart/form-data")
	}
	nameless := "--" + boundary + "\r\nContent-Disposition: form-data\r\n\r\nx\r\n--" + boundary + "--\r\n"
	requireRefusal(t, invalid("file"), post([]byte(nameless), contentType))
	for _, test := range []struct {
		fields []string
		param  string
	}{
		{[]string{"name", "x"}, "name"},
		{[]string{"team_id", "x"}, "team_id"},
		{[]string{"File", "x"}, "File"},
		{[]string{"été", "x"}, "été"},
		{[]string{"team_id", client.Team.String(), "team_id", client.Team.String()}, "team_id"},
		{[]string{"file", pdf}, "file"},
	} {
		body, contentType := form(t, "a.pdf", pdf, test.fields...)
		requireRefusal(t, invalid(test.param), post(body, contentType))
	}
	body, contentType := form(t, "a.pdf", pdf, "team_id", "019a0000-0000-7000-8000-000000000001")
	requireRefusal(t, refusal{404, "not_found", "resource_not_found", "team_id"}, post(body, contentType))
	var empty bytes.Buffer
	writer := multipart.NewWriter(&empty)
	require.NoError(t, writer.WriteField("team_id", client.Team.String()))
	require.NoError(t, writer.Close())
	requireRefusal(t, refusal{400, "invalid_request_error", "missing_required_field", "file"}, post(empty.Bytes(), writer.FormDataContentType()))
	_, err := s.Media.DeleteDue(t.Context())
	require.NoError(t, err)
	require.Zero(t, leftBehind(t, s))
	require.Empty(t, client.Get(t, "/media").List(t))
}

func TestMedia_IdempotencyKey_OneFile(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	first := uploadFile(t, client, "a.pdf", pdf, "Idempotency-Key", "k")
	require.Equal(t, 201, first.Status)
	again := uploadFile(t, client, "a.pdf", pdf, "Idempotency-Key", "k")
	require.Equal(t, first.Body, again.Body)
	require.Equal(t, "true", again.Header.Get("Idempotent-Replayed"))
	reuse := refusal{422, "invalid_request_error", "idempotency_key_reuse", ""}
	requireRefusal(t, reuse, uploadFile(t, client, "a.pdf", pdf+"other", "Idempotency-Key", "k"))
	requireRefusal(t, reuse, uploadFile(t, client, "b.pdf", pdf, "Idempotency-Key", "k"))
	require.Len(t, client.Get(t, "/media").List(t), 1)

	var group sync.WaitGroup
	for range 5 {
		group.Go(func() { uploadFile(t, client, "c.pdf", pdf, "Idempotency-Key", "parallel") })
	}
	group.Wait()
	require.Len(t, client.Get(t, "/media").List(t), 2)
	_, err := s.Media.DeleteDue(t.Context())
	require.NoError(t, err)
	require.Zero(t, leftBehind(t, s), "the files of replays and refusals are deleted")
}

func TestMedia_ClientDisappears_NothingLeftBehind(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	body, contentType := form(t, "a.pdf", pdf+strings.Repeat("x", 1<<20))
	address := strings.TrimPrefix(s.URL, "http://")
	for _, sent := range []int{0, 100, 300, len(body) / 2, len(body) - 1} {
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		_, err = fmt.Fprintf(conn, "POST /v1/media HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s",
			address, client.Key(), contentType, len(body), body[:sent])
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	}
	require.Equal(t, 201, uploadFile(t, client, "a.pdf", pdf).Status)
	require.Eventually(t, func() bool {
		_, err := s.Media.DeleteDue(t.Context())
		return err == nil && leftBehind(t, s) == 0
	}, 3*time.Minute, 20*time.Millisecond)
	require.Len(t, client.Get(t, "/media").List(t), 1)
}

func TestMedia_LapsedSubscription_RefusedBeforeTheFileIsRead(t *testing.T) {
	t.Parallel()
	s := apitest.New(t)
	client := s.Client(t)
	_, err := postgres.InTx(t.Context(), s.DB, client.Org, func(tx *postgres.Tx) (int64, error) {
		return tx.Exec(t.Context(), `UPDATE organizations SET subscription_status = 'inactive' WHERE org_id = @org_id`, nil)
	})
	require.NoError(t, err)
	requireRefusal(t, refusal{402, "permission_error", "subscription_inactive", ""}, uploadFile(t, client, "a.pdf", pdf))
	require.Equal(t, 200, client.Get(t, "/media").Status)
}

// office is an Office file with one entry.
func office(t testing.TB, entry string) string {
	t.Helper()
	// Each is a ZIP archive with [Content_Types].xml and the entry, stored without compression.
	header := func(name string) string {
		return "PK\x03\x04\x14\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
			string([]byte{byte(len(name)), 0, 0, 0}) + name
	}
	text := header("[Content_Types].xml") + header("_rels/.rels") + header(entry)
	return text
}
