// Package s3 opens buckets of S3-compatible services.
package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/s3blob" // opens s3:// URLs

	"github.com/parley-chat/parley/internal/platform/bucket"
)

// Scheme is that of the URLs.
const Scheme = "s3"

// Open opens the bucket of a URL like s3://name?region=…&endpoint=…, with credentials from the usual AWS variables. It
// does not connect.
func Open(ctx context.Context, location string) (*bucket.Bucket, error) {
	parsed, err := url.Parse(location)
	if err != nil {
		return nil, errors.New("it is not a URL")
	}
	if parsed.Scheme != Scheme || parsed.Host == "" {
		return nil, errors.New("it must be like s3://bucket?region=eu-west-1")
	}
	files, err := blob.OpenBucket(ctx, location)
	if err != nil {
		return nil, fmt.Errorf("it cannot be opened: %w", err)
	}
	return bucket.New(files, newUploader(files, parsed)), nil
}

const (
	// partSize is how many bytes of a file are sent to S3 at once: the least that S3 allows.
	partSize = 5 << 20
	// abortWithin is how long discarding the parts of a failed upload may take.
	abortWithin = 5 * time.Second
)

// parts are buffers for partSize bytes. Uploads reuse them: without that, each file would leave several parts of garbage
// behind, and the garbage collector lets the heap grow to a multiple of what is used.
var parts = sync.Pool{New: func() any { return new([partSize]byte) }}

// uploader writes files to an S3-compatible service, with one part of each in memory. The SDK's own uploader keeps up to
// nine in memory, and allocates them anew for each file.
type uploader struct {
	client     *s3.Client
	bucket     string
	encryption types.ServerSideEncryption
	// encryptionKey is the KMS key of the encryption; nil for the service's default.
	encryptionKey *string
	// checksum is that of the parts; empty if the URL asks for none (request_checksum_calculation=when_required).
	checksum types.ChecksumAlgorithm
}

// newUploader returns the uploader of a bucket that was opened by that URL.
func newUploader(files *blob.Bucket, location *url.URL) *uploader {
	u := &uploader{bucket: location.Host}
	_ = files.As(&u.client) // true for each bucket of s3blob
	if u.client.Options().RequestChecksumCalculation != aws.RequestChecksumCalculationWhenRequired {
		u.checksum = types.ChecksumAlgorithmCrc32
	}
	query := location.Query()
	for _, known := range u.encryption.Values() {
		if strings.EqualFold(string(known), query.Get("ssetype")) {
			u.encryption = known
		}
	}
	u.encryptionKey = optional(query.Get("kmskeyid"))
	return u
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// Put stores a file: in one request if it is smaller than a part.
func (u *uploader) Put(ctx context.Context, key string, file bucket.File, content io.Reader) (size int64, err error) {
	part, _ := parts.Get().(*[partSize]byte)
	defer func() {
		if err == nil { // after an error a request may still read it
			parts.Put(part)
		}
	}()
	count, end, err := fill(part, content)
	switch {
	case err != nil:
		return 0, err
	case end:
		_, err = u.client.PutObject(ctx, &s3.PutObjectInput{
			Bucket: &u.bucket, Key: &key, Body: bytes.NewReader(part[:count]),
			ContentType: optional(file.ContentType), ContentDisposition: optional(file.Disposition),
			ServerSideEncryption: u.encryption, SSEKMSKeyId: u.encryptionKey, ChecksumAlgorithm: u.checksum,
		})
		return int64(count), err
	}
	begun, err := u.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{
		Bucket: &u.bucket, Key: &key, ContentType: optional(file.ContentType), ContentDisposition: optional(file.Disposition),
		ServerSideEncryption: u.encryption, SSEKMSKeyId: u.encryptionKey, ChecksumAlgorithm: u.checksum,
	})
	if err != nil {
		return 0, err
	}
	one := upload{uploader: u, key: key, id: begun.UploadId}
	if size, err = one.putParts(ctx, part, content); err != nil {
		return 0, errors.Join(err, one.abort(ctx))
	}
	return size, nil
}

// fill reads content until the part is full or the content has ended. Unlike io.ReadFull it never takes an error of the
// content, such as io.ErrUnexpectedEOF, for its end.
func fill(part *[partSize]byte, content io.Reader) (count int, end bool, err error) {
	for count < partSize && err == nil {
		var read int
		read, err = content.Read(part[count:])
		count += read
	}
	if err == io.EOF { // an error that wraps it is not the end
		return count, true, nil
	}
	return count, false, err
}

// upload is the upload of one file in parts.
type upload struct {
	*uploader

	key string
	id  *string
}

// putParts sends a part that was read already, and those that follow.
func (u upload) putParts(ctx context.Context, part *[partSize]byte, content io.Reader) (size int64, err error) {
	var sent []types.CompletedPart
	for count, end := partSize, false; count > 0; {
		number := aws.Int32(int32(len(sent) + 1)) //nolint:gosec // S3 allows 10 000
		answer, err := u.client.UploadPart(ctx, &s3.UploadPartInput{
			Bucket: &u.bucket, Key: &u.key, UploadId: u.id, PartNumber: number, Body: bytes.NewReader(part[:count]), ChecksumAlgorithm: u.checksum,
		})
		if err != nil {
			return 0, err
		}
		sent = append(sent, types.CompletedPart{ETag: answer.ETag, ChecksumCRC32: answer.ChecksumCRC32, PartNumber: number})
		size += int64(count)
		if end {
			break
		}
		if count, end, err = fill(part, content); err != nil {
			return 0, err
		}
	}
	_, err = u.client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: &u.bucket, Key: &u.key, UploadId: u.id, MultipartUpload: &types.CompletedMultipartUpload{Parts: sent},
	})
	return size, err
}

// abort discards the parts, which S3 would keep and charge for. The context of the upload may be over.
func (u upload) abort(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortWithin)
	defer cancel()
	_, err := u.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &u.bucket, Key: &u.key, UploadId: u.id})
	return err
}

// BeforeRead keeps the SDK from logging a warning for each file that was uploaded in parts, because it does not check them.
func (*uploader) BeforeRead(as func(any) bool) error {
	var options *[]func(*s3.Options)
	if as(&options) {
		*options = append(*options, func(o *s3.Options) { o.DisableLogOutputChecksumValidationSkipped = true })
	}
	return nil
}
