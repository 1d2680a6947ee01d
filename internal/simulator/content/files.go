package content

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"mime"
	"slices"
	"strings"
)

// allowed holds the media types of each message type, and the largest size in bytes.
var allowed = map[string]struct {
	most  int
	types []string
}{
	"audio": {16 << 20, []string{"audio/aac", "audio/amr", "audio/mpeg", "audio/mp4", "audio/ogg"}},
	kindDocument: {100 << 20, []string{
		"text/plain", "application/pdf", "application/msword", "application/vnd.ms-excel", "application/vnd.ms-powerpoint",
		"application/vnd.openxmlformats-officedocument.wordprocessingml.document",
		"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
		"application/vnd.openxmlformats-officedocument.presentationml.presentation",
	}},
	"image":   {5 << 20, []string{"image/jpeg", "image/png"}},
	"sticker": {500 << 10, []string{"image/webp"}},
	"video":   {16 << 20, []string{"video/mp4", "video/3gpp"}},
}

func bareType(mimeType string) string {
	bare, _, err := mime.ParseMediaType(mimeType)
	if err != nil {
		return mimeType
	}
	return bare
}

// Fits returns why a file cannot be sent as a message type, empty when it can.
func Fits(kind, mimeType string, size int) string {
	rule := allowed[kind]
	bare := bareType(mimeType)
	if kind != kindDocument && !slices.Contains(rule.types, bare) { // any file can be a document
		return "Unsupported " + kind + " mime type " + bare + ". Please use one of " + strings.Join(rule.types, ", ") + "."
	}
	if size > rule.most {
		return "The file is too large for a message of type " + kind + "."
	}
	return ""
}

// KindOf returns the message type for a media type, empty when there is none.
func KindOf(mimeType string) string {
	bare := bareType(mimeType)
	for kind, rule := range allowed {
		if slices.Contains(rule.types, bare) {
			return kind
		}
	}
	return ""
}

// SampleFile returns a file for a message type.
func SampleFile(kind string) (mimeType string, data []byte) {
	switch kind {
	case kindDocument:
		return "application/pdf",
			[]byte("%PDF-1.1\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj " +
				"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n")
	case "audio":
		return "audio/ogg; codecs=opus", []byte("OggS\x00\x02sample")
	case "video":
		return "video/mp4", []byte("\x00\x00\x00\x18ftypmp42sample")
	case "sticker":
		return "image/webp", []byte("RIFF\x1a\x00\x00\x00WEBPVP8L\x0d\x00\x00\x00\x2f\x00\x00\x00\x10\x07\x10\x11\x11\x88\x88\xfe\x07\x00")
	}
	picture := image.NewRGBA(image.Rect(0, 0, 96, 64))
	for y := range 64 {
		for x := range 96 {
			picture.Set(x, y, color.RGBA{R: uint8(2 * x), G: uint8(3 * y), B: 160, A: 255})
		}
	}
	var encoded bytes.Buffer
	_ = png.Encode(&encoded, picture) // writing to memory cannot fail
	return "image/png", encoded.Bytes()
}
