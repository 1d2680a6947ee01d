package state

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// How long the id of a file is valid.
const (
	UploadLifetime   = 30 * 24 * time.Hour
	ReceivedLifetime = 7 * 24 * time.Hour
	linkLifetime     = 10 * time.Minute
)

// The bounds of stored files.
const (
	maxMediaBytes = 256 << 20
	maxMediaFiles = 10_000
	maxLinks      = 1_000
)

// File is media that a business or a user sent.
type File struct {
	ID       string
	Mime     string
	Filename string
	Number   string // id
	data     []byte
	// generated, unless nil, makes the bytes anew for each download: large files need no memory.
	generated *generated
	SHA256    [sha256.Size]byte
	expires   time.Time
}

// Size returns the length in bytes.
func (f *File) Size() int {
	if f.generated != nil {
		return f.generated.size
	}
	return len(f.data)
}

// MaxGenerated is the largest file that is generated, in bytes: more than the network lets anybody send.
const MaxGenerated = 128 << 20

// generated is a file of random bytes: the same for the same seed.
type generated struct {
	size int
	seed uint64
}

func (g *generated) read() io.Reader {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], g.seed)
	return io.LimitReader(rand.NewChaCha8(seed), int64(g.size))
}

// AddGenerated stores a file of so many random bytes.
func (d *Data) AddGenerated(numberID, mimeType, filename string, size int, seed uint64, expires, now time.Time) *File {
	added := d.AddFile(numberID, mimeType, filename, nil, expires, now)
	added.generated = &generated{size: size, seed: seed}
	sum := sha256.New()
	_, _ = io.Copy(sum, added.generated.read()) // neither reading nor hashing fails
	copy(added.SHA256[:], sum.Sum(nil))
	return added
}

// SHA256Base64 returns the checksum as callbacks carry it.
func (f *File) SHA256Base64() string { return base64.StdEncoding.EncodeToString(f.SHA256[:]) }

// fileStore holds the newest files, within its bounds.
type fileStore struct {
	files map[string]*File
	order []*File
	bytes int
	links map[string]linkResult // by URL
}

func newFileStore() *fileStore {
	return &fileStore{files: map[string]*File{}, links: map[string]linkResult{}}
}

// Find returns a file whose id is still valid, else nil.
func (s *fileStore) Find(id string, now time.Time) *File {
	found := s.files[id]
	if found == nil || now.After(found.expires) {
		return nil
	}
	return found
}

// AddFile stores a file and deletes the oldest ones beyond the bounds.
func (d *Data) AddFile(numberID, mimeType, filename string, data []byte, expires, now time.Time) *File {
	store := d.Files
	added := &File{
		ID: d.NextID(mediaSeries), Mime: mimeType, Filename: filename, Number: numberID, data: data,
		SHA256: sha256.Sum256(data), expires: expires,
	}
	store.files[added.ID] = added
	store.order = append(store.order, added)
	store.bytes += len(data)
	for len(store.order) > 1 && (store.bytes > maxMediaBytes || len(store.order) > maxMediaFiles || now.After(store.order[0].expires)) {
		store.drop(store.order[0])
		store.order = store.order[1:]
	}
	return added
}

func (s *fileStore) drop(file *File) {
	if s.files[file.ID] == file {
		delete(s.files, file.ID)
		s.bytes -= len(file.data)
	}
}

// Remove deletes a file.
func (s *fileStore) Remove(file *File) {
	s.drop(file)
	s.order = slices.DeleteFunc(s.order, func(other *File) bool { return other == file })
}

// MediaPath is the path of the media host.
const MediaPath = "/whatsapp_business/attachments/"

// MaxUpload is the largest body of an upload, in bytes: the largest file and its form.
const MaxUpload = 100<<20 + 1<<16

// MediaURL returns a signed URL of a file that expires. The caller holds the lock.
func (s *Simulation) MediaURL(base string, m *File, now time.Time) string {
	expires := strconv.FormatInt(now.Add(time.Duration(s.Data.Settings.MediaURLSeconds)*time.Second).Unix(), 10)
	query := url.Values{"mid": {m.ID}, "source": {"getMedia"}, "ext": {expires}, "hash": {s.URLHash(m.ID, expires)}}
	return base + MediaPath + "?" + query.Encode()
}

// URLHash returns the signature of a media URL.
func (s *Simulation) URLHash(id, expires string) string {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(id + "/" + expires))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// Serve writes the file as an HTTP answer.
func (f *File) Serve(w http.ResponseWriter) {
	w.Header().Set("Content-Type", f.Mime)
	w.Header().Set("Content-Length", strconv.Itoa(f.Size()))
	w.Header().Set("X-Content-Type-Options", "nosniff")
	var content io.Reader = bytes.NewReader(f.data)
	if f.generated != nil {
		content = f.generated.read()
	}
	_, _ = io.Copy(w, content) // fails only when the client has gone
}

// Upload is a resumable upload of a template's example.
type Upload struct {
	ID     string
	App    string
	Mime   string
	Length int // of the whole file, in bytes
	Data   []byte
}
