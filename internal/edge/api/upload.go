package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"time"

	"github.com/parley-chat/parley/internal/domain/library"
	"github.com/parley-chat/parley/internal/domain/orgs"
	"github.com/parley-chat/parley/internal/fault"
	"github.com/parley-chat/parley/internal/platform/jsonin"
)

const (
	// receiveWithin is how long a whole form may take to arrive: 100 MiB at 190 KiB a second. uploadTimeout is the deadline
	// of the request.
	receiveWithin = 9 * time.Minute
	uploadTimeout = 10 * time.Minute
	// A caller has startWithin, and a second more for each slowestRate bytes that it has sent: few slow callers would
	// otherwise take all places. stallsFor is how long it may take to send the next piece.
	startWithin = 20 * time.Second
	slowestRate = 32 << 10
	stallsFor   = 30 * time.Second
	// answerWithin is how long a caller may take to read the answer.
	answerWithin = 30 * time.Second
	// maxFormBytes is for the parts of a form besides the file, and their headers.
	maxFormBytes = 64 << 10
	// maxFieldBytes is more than the text of any field.
	maxFieldBytes = 1 << 10
	// uploadsAtOnce and uploadsPerOrg are how many files a process receives at once: each keeps up to about 6 MiB in
	// memory, a large Office file 20. Others wait for up to uploadWait before their body is read.
	uploadsAtOnce, uploadsPerOrg = 16, 4
	uploadWait                   = time.Minute
	// discardWithin is how long discarding an upload may take.
	discardWithin = 5 * time.Second
)

// maxBytes is the largest body of the route.
func (r *route) maxBytes() int64 {
	if r.upload {
		return library.MaxSize + maxFormBytes
	}
	return jsonin.MaxBodyBytes
}

// upload is a form with a file that was received.
type upload struct {
	draft  library.Draft
	teamID string
	// given says that the form has a file.
	given bool
	// kept says that the file is part of the library.
	kept bool
}

// fingerprint is what makes a request with an Idempotency-Key the same request, besides method and path.
func (c *call) fingerprint() [][]byte {
	if c.upload == nil {
		return [][]byte{c.body}
	}
	file := c.upload.draft.Upload
	return [][]byte{file.SHA256, []byte(file.Name()), []byte(c.upload.teamID)}
}

// patientBody replaces the server's deadline for a body by one that grows with what the caller has sent.
type patientBody struct {
	noted
	io.Closer

	control *http.ResponseController
	// now is the machine's time, which the deadlines of connections go by.
	now func() time.Time
	// began is when the first piece was asked for: an upload may wait for its place before.
	began    time.Time
	received int64
}

func patient(w http.ResponseWriter, body io.ReadCloser) *patientBody {
	made := &patientBody{
		noted: noted{Reader: body}, Closer: body, control: http.NewResponseController(w),
		now: time.Now, //nolint:forbidigo // see the field
	}
	_ = made.control.SetWriteDeadline(made.now().Add(uploadTimeout + answerWithin)) // without one the server's own holds
	return made
}

func (b *patientBody) Read(into []byte) (int, error) {
	if b.began.IsZero() {
		b.began = b.now()
	}
	_ = b.control.SetReadDeadline(b.deadline()) // a deadline that is over fails the read
	n, err := b.noted.Read(into)
	b.received += int64(n)
	return n, err
}

// ended gives the caller's connection the time of the whole request: the server goes on reading from it, and a deadline that
// passes would cancel the request while its file is being stored.
func (b *patientBody) ended() { _ = b.control.SetReadDeadline(b.now().Add(uploadTimeout)) }

// deadline is when the next piece must have arrived.
func (b *patientBody) deadline() time.Time {
	allowed := min(startWithin+time.Duration(b.received/slowestRate)*time.Second, receiveWithin)
	until, stalled := b.began.Add(allowed), b.now().Add(stallsFor)
	if stalled.Before(until) {
		return stalled
	}
	return until
}

// receive reads a form and stores its file. The file becomes part of the library in the handler.
func (a *API) receive(c *call) error {
	key, err := idempotencyKey(c)
	if err != nil {
		return err
	}
	if key == "" { // with a key the answer may be stored already; else handle refuses
		if err := c.caller.RefusesWrites(c.cell.Clock.Now()); err != nil {
			return err
		}
	}
	boundary, err := boundaryOf(c.request.Header)
	if err != nil {
		return err
	}
	if c.request.ContentLength > c.route.maxBytes() {
		return errFileTooLarge
	}
	leave, entered := a.uploads.enter(c.ctx(), c.org())
	if !entered {
		return errNoUploadPlace
	}
	defer leave()
	c.upload = &upload{}
	form := multipart.NewReader(c.request.Body, boundary)
	for err == nil {
		err = c.readPart(form)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	body, isPatient := c.request.Body.(*patientBody)
	if isPatient {
		body.ended()
	}
	// An error of the connection comes first: the errors after it are its consequences.
	if isPatient && body.failed != nil {
		if _, tooLarge := errors.AsType[*http.MaxBytesError](body.failed); tooLarge {
			return errFileTooLarge
		}
		return errArrival
	}
	if err == nil && !c.upload.given {
		return fault.Missing("file")
	}
	return err
}

var errFileTooLarge = fault.New(fault.RequestTooLarge, "The file is larger than 100 MiB, the most for any type.").At("file")

var (
	errForm = fault.New(fault.InvalidFieldValue,
		"The form is malformed or ends too early. Send multipart/form-data with the file in a part named `file`, as the form encoder "+
			"of your HTTP library writes it, and let that set the Content-Type with the boundary.").At("file")
	errArrival = fault.New(fault.InvalidFieldValue, "The form did not arrive whole: it is shorter than its Content-Length, or too slow. "+
		"Send at least 32 KiB a second, and all of it within 9 minutes.").At("file")
)

func boundaryOf(header http.Header) (string, error) {
	if err := refuseEncoding(header); err != nil {
		return "", err
	}
	kind, params, err := mime.ParseMediaType(strings.Join(header.Values("Content-Type"), ", "))
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return "", fault.New(fault.UnsupportedMediaType, "Send a form with the file, with `Content-Type: multipart/form-data`.")
	}
	return params["boundary"], nil
}

// readPart reads the next part of the form; io.EOF after the last one.
func (c *call) readPart(form *multipart.Reader) error {
	part, err := form.NextPart()
	if err == io.EOF { //nolint:errorlint // a form that ends too early is another error that wraps this one
		return io.EOF
	}
	if err != nil {
		return errForm
	}
	defer func() { _ = part.Close() }()
	switch name := part.FormName(); name {
	case "file":
		if c.upload.given {
			return fault.Invalid(name, "was given more than once")
		}
		c.upload.given = true
		content := &noted{Reader: part}
		c.upload.draft.Upload, err = c.cell.Library.Receive(c.ctx(), c.org(), part.FileName(), content)
		if content.failed != nil {
			return errForm
		}
		return err
	case "team_id":
		text, err := io.ReadAll(io.LimitReader(part, maxFieldBytes))
		if err != nil {
			return errForm
		}
		var team orgs.TeamID
		if c.upload.draft.TeamID != nil {
			return fault.Invalid(name, "was given more than once")
		}
		if team.UnmarshalText(text) != nil {
			return fault.Invalid(name, "must be the UUID of a team; got `"+jsonin.FieldName(string(text))+"`")
		}
		c.upload.teamID, c.upload.draft.TeamID = string(text), &team
		return nil
	case "":
		return fault.New(fault.InvalidFieldValue, "A part of the form has no name. Name the file `file`, and the team `team_id`.").At("file")
	default:
		return fault.Invalid(jsonin.FieldName(name), "is not a known field; the form takes `file` and `team_id`")
	}
}

// noted keeps why reading failed, because those who read it return errors of their own.
type noted struct {
	io.Reader

	// failed is nil while reading did not fail.
	failed error
}

func (n *noted) Read(into []byte) (int, error) {
	count, err := n.Reader.Read(into)
	if err != nil && !errors.Is(err, io.EOF) {
		n.failed = err
	}
	return count, err
}

// discard deletes a file that did not become part of the library: the request was refused, or its answer is a replay.
func (a *API) discard(ctx context.Context, c *call) {
	if c.upload == nil || c.upload.kept || c.upload.draft.Upload.Key == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardWithin)
	defer cancel()
	if err := c.cell.Library.Discard(ctx, c.org(), c.upload.draft.Upload); err != nil {
		a.Logger.WarnContext(ctx, "media.not_discarded", "org", c.org(), "error", err) // it is deleted after an hour
	}
}

var errNoUploadPlace = &fault.Error{
	Code: fault.ServiceUnavailable, RetryAfter: 10 * time.Second,
	Message: fmt.Sprintf("Too many files are being uploaded. Upload at most %d at once, and repeat this one later.", uploadsPerOrg),
}
