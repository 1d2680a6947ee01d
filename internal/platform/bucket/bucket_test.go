package bucket_test

import (
	"bytes"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/bucket"
)

// TestMain sets the credentials that the S3 client reads from the environment.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true"} {
		_ = os.Setenv(name, value)
	}
	os.Exit(m.Run())
}

func buckets(t *testing.T) map[string]*bucket.Bucket {
	t.Helper()
	backend := s3mem.New()
	require.NoError(t, backend.CreateBucket("media"))
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	opened := map[string]*bucket.Bucket{}
	for name, url := range map[string]string{
		"file": "file://" + filepath.Join(t.TempDir(), "a", "b"),
		"s3":   "s3://media?region=eu-west-1&use_path_style=true&endpoint=" + server.URL,
	} {
		files, err := bucket.Open(t.Context(), url)
		require.NoError(t, err)
		t.Cleanup(func() { _ = files.Close() })
		opened[name] = files
	}
	return opened
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
			require.NoError(t, files.Check(t.Context()))
		})
	}
}

// A file whose source fails is not stored, and leaves an earlier one as it was.
func TestBucket_SourceFails_NothingStored(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, files := range buckets(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := io.MultiReader(bytes.NewReader(make([]byte, 8<<20)), iotest.ErrReader(broken))
			_, err := files.Put(t.Context(), "key", bucket.File{}, source)
			require.ErrorIs(t, err, broken)
			_, err = files.Get(t.Context(), "key")
			require.ErrorIs(t, err, bucket.ErrNotFound)
		})
	}
}

func TestOpen_OtherURLs_Refused(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "/var/lib", "file:", "s3://", "gs://bucket", "://"} {
		_, err := bucket.Open(t.Context(), url)
		require.Error(t, err, url)
	}
}
