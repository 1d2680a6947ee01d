package bucket_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/bucket"
)

// TestOpen_Directory_RemovesOldTemporaryFiles: a process that is killed while it writes leaves its temporary file.
func TestOpen_Directory_RemovesOldTemporaryFiles(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	files, err := bucket.Open("file://" + directory)
	require.NoError(t, err)
	_, err = files.Put(t.Context(), "kept", bucket.File{}, strings.NewReader("a"))
	require.NoError(t, err)
	for _, name := range []string{"kept", "old.18a.tmp", "young.18a.tmp"} {
		path := filepath.Join(directory, name)
		if name != "kept" {
			require.NoError(t, os.WriteFile(path, []byte("half"), 0o600))
		}
		if name != "young.18a.tmp" {
			past := time.Now().Add(-25 * time.Hour)
			require.NoError(t, os.Chtimes(path, past, past))
		}
	}
	_, err = bucket.Open("file://" + directory)
	require.NoError(t, err)
	left, err := filepath.Glob(filepath.Join(directory, "*"))
	require.NoError(t, err)
	var names []string
	for _, path := range left {
		names = append(names, filepath.Base(path))
	}
	require.Contains(t, names, "kept")
	require.Contains(t, names, "young.18a.tmp", "it may still be written")
	require.NotContains(t, names, "old.18a.tmp")
}

func TestOpen_OtherURLs_Refused(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "/var/lib", "file:", "s3://", "s3://bucket", "gs://bucket", "://"} {
		_, err := bucket.Open(url)
		require.Error(t, err, url)
	}
}
