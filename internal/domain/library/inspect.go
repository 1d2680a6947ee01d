package library

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"strings"

	"github.com/gabriel-vasile/mimetype"

	"github.com/parley-chat/parley/internal/domain/media"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/bucket"
	"github.com/parley-chat/parley/internal/provider"
)

const mebibyte = 1 << 20

// MaxSize is the size of the largest file of any type, in bytes.
const MaxSize = 100 * mebibyte

// limits are the largest sizes by type, in bytes. The messaging network documents them in MB and does not say which it means:
// here a MB is 2^20 bytes. It refuses the upload of a file that is too large for it.
var limits = map[string]int64{ //nolint:gochecknoglobals // a constant
	provider.TypeImage: 5 * mebibyte, provider.TypeAudio: 16 * mebibyte, provider.TypeVideo: 16 * mebibyte, provider.TypeDocument: MaxSize,
}

// accepted says, by the detected content type, what the messaging network calls it and which type of message carries it.
var accepted = map[string]struct{ mimeType, messageType string }{ //nolint:gochecknoglobals // a constant
	"image/jpeg":                    {"image/jpeg", provider.TypeImage},
	"image/png":                     {"image/png", provider.TypeImage},
	"video/mp4":                     {"video/mp4", provider.TypeVideo},
	"video/x-m4v":                   {"video/mp4", provider.TypeVideo},
	"video/3gpp":                    {"video/3gpp", provider.TypeVideo},
	"audio/aac":                     {"audio/aac", provider.TypeAudio},
	"audio/amr":                     {"audio/amr", provider.TypeAudio},
	"audio/mpeg":                    {"audio/mpeg", provider.TypeAudio},
	"audio/mp4":                     {"audio/mp4", provider.TypeAudio},
	"audio/x-m4a":                   {"audio/mp4", provider.TypeAudio},
	VoiceType:                       {VoiceType, provider.TypeAudio},
	"text/plain":                    {"text/plain", provider.TypeDocument},
	"application/pdf":               {"application/pdf", provider.TypeDocument},
	"application/msword":            {"application/msword", provider.TypeDocument},
	"application/vnd.ms-excel":      {"application/vnd.ms-excel", provider.TypeDocument},
	"application/vnd.ms-powerpoint": {"application/vnd.ms-powerpoint", provider.TypeDocument},
	word:                            {word, provider.TypeDocument},
	sheet:                           {sheet, provider.TypeDocument},
	slides:                          {slides, provider.TypeDocument},
}

// VoiceType is the content type that a voice note must have.
const VoiceType = "audio/ogg"

const (
	word   = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
	sheet  = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
	slides = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
	// whatIsAccepted names the content types for people.
	whatIsAccepted = "JPEG and PNG images, MP4 and 3GPP videos, AAC, AMR, MP3, M4A and OGG Opus audio, PDF, plain text and Office documents"
)

// headSize is how much of a file is read to detect its type, zipHeadSize how much of a ZIP archive. Office files are such
// archives, and the part that tells which may come after a large one, such as a preview picture.
const headSize, zipHeadSize = 1 << 20, 8 << 20

func init() { //nolint:gochecknoinits // the package keeps its limit in a global
	mimetype.SetLimit(zipHeadSize)
}

// detect reads the start of a file, and tells its type.
func detect(from io.Reader) (head []byte, mime *mimetype.MIME, err error) {
	head, err = io.ReadAll(io.LimitReader(from, headSize))
	if mime = mimetype.Detect(head); err != nil || !mime.Is("application/zip") {
		return head, mime, err
	}
	more, err := io.ReadAll(io.LimitReader(from, zipHeadSize-headSize))
	head = append(head, more...)
	return head, mimetype.Detect(head), err
}

// content is a file that is being read. It fails when the file is larger than its type allows.
type content struct {
	io.Reader

	upload Upload
	sum    hash.Hash
	left   int64
}

// inspect reads the start of a file and detects its type by the content, never by the name.
func inspect(filename string, from io.Reader) (*content, error) {
	head, mime, err := detect(from)
	if err != nil {
		return nil, err
	}
	if len(head) == 0 {
		return nil, fault.Invalid("file", "must not be empty")
	}
	detected, _, _ := strings.Cut(mime.String(), ";")
	found, ok := accepted[detected]
	if len(head) >= 12 && string(head[4:12]) == "ftypMSNV" { // detected as audio, and used by cameras for video
		found = accepted["video/mp4"]
	}
	if !ok && isText(mime) {
		found, ok = accepted["text/plain"], true
	}
	if !ok {
		return nil, fault.Invalid("file", "has the content type "+detected+" by its content. Accepted are "+whatIsAccepted)
	}
	if found.mimeType == VoiceType && !bytes.Contains(head, []byte("OpusHead")) {
		return nil, fault.Invalid("file", "must use the codec Opus: the messaging network plays no other OGG audio")
	}
	file := &content{
		Reader: io.MultiReader(bytes.NewReader(head), from), sum: sha256.New(), left: limits[found.messageType],
		upload: Upload{Type: found.messageType, MIMEType: found.mimeType},
	}
	if name := media.SafeName(filename); name != "" {
		file.upload.Filename = &name
	}
	return file, nil
}

// isText tells files that are text with a form of its own, such as JSON and tables. Those that browsers run are not
// taken for text.
func isText(mime *mimetype.MIME) bool {
	if mime.Is("text/html") || mime.Is("image/svg+xml") || mime.Is("application/xhtml+xml") {
		return false
	}
	for ; mime != nil; mime = mime.Parent() {
		if mime.Is("text/plain") {
			return true
		}
	}
	return false
}

var errTooLarge = errors.New("the file is larger than its type allows")

func (c *content) Read(into []byte) (int, error) {
	n, err := c.Reader.Read(into)
	_, _ = c.sum.Write(into[:n]) // it never fails
	if c.left -= int64(n); c.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// stored is what is stored with the file.
func (c *content) stored() bucket.File {
	return bucket.File{ContentType: c.upload.MIMEType, Disposition: media.Disposition(c.upload.Name())}
}

// refusal turns "too large" into the refusal that the caller gets; other errors stay.
func (c *content) refusal(err error) error {
	if !errors.Is(err, errTooLarge) {
		return err
	}
	return fault.New(fault.RequestTooLarge, "The file is larger than the %d MiB that the messaging network allows for files of the type %s.",
		limits[c.upload.Type]/mebibyte, c.upload.Type).At("file")
}
