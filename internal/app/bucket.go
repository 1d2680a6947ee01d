package app

import (
	"context"
	"strings"

	"github.com/parley-chat/parley/internal/platform/bucket"
	"github.com/parley-chat/parley/internal/platform/bucket/s3"
)

// openBucket opens the bucket of the files of messages: a directory, or a bucket of an S3-compatible service.
func (c Config) openBucket(ctx context.Context) (*bucket.Bucket, error) {
	location := c.MediaBucket.Reveal()
	if strings.HasPrefix(location, s3.Scheme+"://") {
		return s3.Open(ctx, location)
	}
	return bucket.Open(location)
}
