// Package bucket stores files: in a directory, or in a service. Package bucket/s3 opens the buckets of S3-compatible
// services: only programs that use them link the SDK.
package bucket

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/gcerrors"
)

// Bucket is a place for files. Its methods may be called at the same time.
type Bucket struct {
	files   *blob.Bucket
	service Service
}

// Service is what differs between the kinds of bucket: how a file is stored, and how a request that reads is changed.
type Service interface {
	// Put stores a file, as Bucket.Put.
	Put(ctx context.Context, key string, file File, content io.Reader) (size int64, err error)
	// BeforeRead changes a request that reads a file, as blob.ReaderOptions.BeforeRead.
	BeforeRead(as func(any) bool) error
}

// New returns the bucket of a service. Closing the bucket closes files.
func New(files *blob.Bucket, service Service) *Bucket { return &Bucket{files: files, service: service} }

// Open opens the directory of a URL like file:///directory, and makes it if it is missing.
func Open(location string) (*Bucket, error) {
	parsed, err := url.Parse(location)
	if err != nil {
		return nil, errors.New("it is not a URL")
	}
	if parsed.Scheme != "file" || parsed.Path == "" {
		return nil, errors.New("it must be like file:///var/lib/parley/media or s3://bucket?region=eu-west-1")
	}
	// Temporary files are made beside the files: a rename works within one file system only.
	removeLeftovers(parsed.Path)
	files, err := fileblob.OpenBucket(parsed.Path, &fileblob.Options{CreateDir: true, DirFileMode: os.ModePerm &^ 0o077, NoTempDir: true})
	if err != nil {
		return nil, fmt.Errorf("it cannot be opened: %w", err)
	}
	return New(files, directory{files}), nil
}

// directory writes files to a directory.
type directory struct{ files *blob.Bucket }

// Put stores a file.
func (d directory) Put(ctx context.Context, key string, file File, content io.Reader) (size int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	writer, err := d.files.NewWriter(ctx, key, &blob.WriterOptions{
		ContentType: file.ContentType, ContentDisposition: file.Disposition, DisableContentTypeDetection: true,
	})
	if err != nil {
		return 0, err
	}
	if size, err = io.Copy(writer, content); err != nil {
		cancel() // Close then discards what was written
		return 0, errors.Join(err, ignoreCanceled(writer.Close()))
	}
	return size, writer.Close()
}

// BeforeRead changes nothing.
func (directory) BeforeRead(func(any) bool) error { return nil }

// leftAfter is older than any file that is being written: a transfer has 10 minutes.
const leftAfter = 24 * time.Hour

// removeLeftovers removes the temporary files of processes that were killed. One that cannot be removed is tried again at
// the next start.
func removeLeftovers(directory string) {
	found, _ := os.ReadDir(directory) // it may not exist yet
	for _, one := range found {
		if !strings.HasSuffix(one.Name(), ".tmp") {
			continue
		}
		about, err := one.Info()
		if err == nil && about.Mode().IsRegular() && about.ModTime().Before(machineTime().Add(-leftAfter)) {
			_ = os.Remove(filepath.Join(directory, one.Name()))
		}
	}
}

// machineTime is the time by which the file system stamps files.
func machineTime() time.Time { return time.Now() } //nolint:forbidigo // see above

// Close closes the bucket.
func (b *Bucket) Close() error { return b.files.Close() }

// File is what is stored with the bytes of a file.
type File struct {
	ContentType string
	// Disposition is the header Content-Disposition with which the file is served.
	Disposition string
}

// Put stores a file under a key, in place of an earlier one, and returns its size. Nothing is stored
// if reading fails. It keeps at most 5 MiB of the file in memory.
func (b *Bucket) Put(ctx context.Context, key string, file File, content io.Reader) (size int64, err error) {
	size, err = b.service.Put(ctx, key, file, content)
	return size, hide(key, err)
}

// failure is an error without the key: the key is the permission to read the file, and errors are logged.
type failure struct {
	key   string
	cause error
}

func (f failure) Error() string { return strings.ReplaceAll(f.cause.Error(), f.key, "[key]") }

func (f failure) Unwrap() error { return f.cause }

func hide(key string, err error) error {
	if err == nil {
		return nil
	}
	return failure{key: key, cause: err}
}

func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) || gcerrors.Code(err) == gcerrors.Canceled {
		return nil
	}
	return err
}

// Object is an open file.
type Object struct {
	*blob.Reader

	File File
	ETag string
}

// ErrNotFound means that there is no file under the key.
var ErrNotFound = errors.New("there is no such file")

// Exists returns ErrNotFound if there is no file under the key.
func (b *Bucket) Exists(ctx context.Context, key string) error {
	there, err := b.files.Exists(ctx, key)
	if err == nil && !there {
		return ErrNotFound
	}
	return hide(key, err)
}

// Get opens a file. The caller closes it.
func (b *Bucket) Get(ctx context.Context, key string) (*Object, error) {
	attributes, err := b.files.Attributes(ctx, key)
	if err != nil {
		return nil, notFound(key, err)
	}
	reader, err := b.files.NewReader(ctx, key, &blob.ReaderOptions{BeforeRead: b.service.BeforeRead})
	if err != nil {
		return nil, notFound(key, err)
	}
	return &Object{
		Reader: reader, File: File{ContentType: attributes.ContentType, Disposition: attributes.ContentDisposition}, ETag: attributes.ETag,
	}, nil
}

func notFound(key string, err error) error {
	if gcerrors.Code(err) == gcerrors.NotFound {
		return ErrNotFound
	}
	return hide(key, err)
}

// Delete deletes a file. There is no error if it does not exist.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	if err := notFound(key, b.files.Delete(ctx, key)); !errors.Is(err, ErrNotFound) {
		return err
	}
	return nil
}

// Check writes, reads and deletes a small file.
func (b *Bucket) Check(ctx context.Context) error {
	key := "check/" + rand.Text()
	if _, err := b.Put(ctx, key, File{}, strings.NewReader("check")); err != nil {
		return err
	}
	if _, err := b.files.ReadAll(ctx, key); err != nil {
		return err
	}
	return b.files.Delete(ctx, key)
}
