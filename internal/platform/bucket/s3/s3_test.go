package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/bucket"
	"github.com/parley-chat/parley/internal/platform/bucket/s3"
)

// TestMain sets the credentials that the S3 client reads from the environment.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true"} {
		_ = os.Setenv(name, value)
	}
	os.Exit(m.Run())
}

// s3Server is an S3 server with an empty bucket `media` that keeps the headers of what is written.
type s3Server struct {
	*httptest.Server

	mutex   sync.Mutex
	written []http.Header
}

func newS3Server(t *testing.T) *s3Server {
	t.Helper()
	backend := s3mem.New()
	require.NoError(t, backend.CreateBucket("media"))
	fake, s := gofakes3.New(backend).Server(), &s3Server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			s.mutex.Lock()
			s.written = append(s.written, r.Header.Clone())
			s.mutex.Unlock()
		}
		fake.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *s3Server) open(t *testing.T, parameters string) *bucket.Bucket {
	t.Helper()
	files, err := s3.Open(t.Context(), "s3://media?region=eu-west-1&use_path_style=true&endpoint="+s.URL+parameters)
	require.NoError(t, err)
	t.Cleanup(func() { _ = files.Close() })
	return files
}

// buckets has one of each kind: the tests that use it hold for both.
func buckets(t *testing.T) map[string]*bucket.Bucket {
	t.Helper()
	files, err := bucket.Open("file://" + t.TempDir() + "/a/b")
	require.NoError(t, err)
	t.Cleanup(func() { _ = files.Close() })
	return map[string]*bucket.Bucket{"file": files, "s3": newS3Server(t).open(t, "")}
}

func TestBucket_PutGetDelete(t *testing.T) {
	t.Parallel()
	for name, files := range buckets(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := bytes.Repeat([]byte("0123456789"), 1_200_000) // more than one part of an upload
			size, err := files.Put(t.Context(), "key", bucket.File{ContentType: "image/png", Disposition: "attachment"}, bytes.NewReader(data))
			require.NoError(t, err)
			require.EqualValues(t, len(data), size)
			require.NoError(t, files.Exists(t.Context(), "key"))
			file, err := files.Get(t.Context(), "key")
			require.NoError(t, err)
			require.Equal(t, bucket.File{ContentType: "image/png", Disposition: "attachment"}, file.File)
			require.NotEmpty(t, file.ETag)
			_, err = file.Seek(5, io.SeekStart)
			require.NoError(t, err)
			read, err := io.ReadAll(file)
			require.NoError(t, err)
			require.NoError(t, file.Close())
			require.True(t, bytes.Equal(data[5:], read))
			require.NoError(t, files.Delete(t.Context(), "key"))
			require.NoError(t, files.Delete(t.Context(), "key"), "a file that is gone can be deleted again")
			_, err = files.Get(t.Context(), "key")
			require.ErrorIs(t, err, bucket.ErrNotFound)
			require.ErrorIs(t, files.Exists(t.Context(), "key"), bucket.ErrNotFound)
			require.NoError(t, files.Check(t.Context()))
		})
	}
}

// A file whose source fails is not stored.
func TestBucket_SourceFails_NothingStored(t *testing.T) {
	t.Parallel()
	for _, broken := range []error{errors.New("broken"), io.ErrUnexpectedEOF, fmt.Errorf("too early: %w", io.EOF)} {
		for name, files := range buckets(t) {
			t.Run(name+" "+broken.Error(), func(t *testing.T) {
				t.Parallel()
				for _, size := range []int{1, 8 << 20, 10 << 20} {
					_, err := files.Put(t.Context(), "key", bucket.File{}, &failing{size: size, err: broken})
					require.ErrorIs(t, err, broken)
					_, err = files.Get(t.Context(), "key")
					require.ErrorIs(t, err, bucket.ErrNotFound)
				}
			})
		}
	}
}

// failing is a source that fails once, with its last bytes.
type failing struct {
	size int
	err  error
}

func (f *failing) Read(into []byte) (int, error) {
	count := min(len(into), f.size)
	if f.size -= count; f.size > 0 {
		return count, nil
	}
	err := f.err
	f.err = io.EOF
	return count, err
}

// Sizes around that of a part of an upload.
func TestBucket_S3Sizes_StoredWhole(t *testing.T) {
	t.Parallel()
	const part = 5 << 20
	files := newS3Server(t).open(t, "")
	for _, size := range []int{0, 1, part - 1, part, part + 1, 2 * part} {
		data := make([]byte, size)
		_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
		key := strconv.Itoa(size)
		stored, err := files.Put(t.Context(), key, bucket.File{}, iotest.HalfReader(bytes.NewReader(data)))
		require.NoError(t, err)
		require.EqualValues(t, size, stored)
		file, err := files.Get(t.Context(), key)
		require.NoError(t, err)
		read, err := io.ReadAll(file)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		require.True(t, bytes.Equal(data, read), size)
	}
}

// An upload whose source fails or whose caller is gone leaves no parts behind, for which S3 would charge.
func TestBucket_S3UploadFails_NoPartsLeft(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]error{"source": errors.New("broken"), "caller": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newS3Server(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			last := readerFunc(func([]byte) (int, error) {
				if broken == nil {
					cancel()
					return 0, io.EOF
				}
				return 0, broken
			})
			_, err := server.open(t, "").Put(ctx, "key", bucket.File{}, io.MultiReader(bytes.NewReader(make([]byte, 12<<20)), last))
			require.Error(t, err)
			response, err := http.Get(server.URL + "/media?uploads")
			require.NoError(t, err)
			defer func() { _ = response.Body.Close() }()
			list, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.Contains(t, string(list), "ListMultipartUploadsResult")
			require.NotContains(t, string(list), "<Upload>")
		})
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(into []byte) (int, error) { return f(into) }

// The parameters of the URL hold for files of one part and of many.
func TestOpen_S3Parameters_SentWithUploads(t *testing.T) {
	t.Parallel()
	type sent struct{ encryption, key, checksum string }
	for parameters, want := range map[string]sent{
		"":                             {checksum: "CRC32"},
		"&ssetype=aes256":              {encryption: "AES256", checksum: "CRC32"},
		"&ssetype=aws:kms&kmskeyid=it": {encryption: "aws:kms", key: "it", checksum: "CRC32"},
		"&request_checksum_calculation=when_required": {},
	} {
		t.Run(parameters, func(t *testing.T) {
			t.Parallel()
			for _, size := range []int{1, 6 << 20} {
				server := newS3Server(t)
				_, err := server.open(t, parameters).Put(t.Context(), "key", bucket.File{}, bytes.NewReader(make([]byte, size)))
				require.NoError(t, err)
				got := server.written[0]
				require.Equal(t, want, sent{
					encryption: got.Get("X-Amz-Server-Side-Encryption"), key: got.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"),
					checksum: got.Get("X-Amz-Sdk-Checksum-Algorithm") + got.Get("X-Amz-Checksum-Algorithm"),
				}, "of a file of %d bytes", size)
			}
		})
	}
}

func TestOpen_OtherURLs_Refused(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "/var/lib", "file:///var/lib", "s3://", "s3:", "gs://bucket", "://"} {
		_, err := s3.Open(t.Context(), url)
		require.Error(t, err, url)
	}
}
