package onboarding

import (
	"bytes"
	"embed"
	"encoding/json"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/language"

	"github.com/parley-chat/parley/internal/domain/setuplinks"
)

//go:embed files
var files embed.FS

// views are the templates, and the texts of each language: files/texts/en.json and so on. A new language is a new file; a visitor
// with another language gets English.
type views struct {
	layout  *template.Template
	matcher language.Matcher
	tags    []language.Tag
	texts   []map[string]string
}

func newViews() (*views, error) {
	v := &views{}
	var err error
	if v.layout, err = template.ParseFS(files, "files/pages.html"); err != nil {
		return nil, err
	}
	names, err := fs.Glob(files, "files/texts/*.json")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		tag, err := language.Parse(strings.TrimSuffix(path.Base(name), ".json"))
		if err != nil {
			return nil, err
		}
		content, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		texts := map[string]string{}
		if err := json.Unmarshal(content, &texts); err != nil {
			return nil, err
		}
		v.tags, v.texts = append(v.tags, tag), append(v.texts, texts)
		if last := len(v.tags) - 1; tag == language.English { // the matcher falls back to the first
			v.tags[0], v.tags[last] = v.tags[last], v.tags[0]
			v.texts[0], v.texts[last] = v.texts[last], v.texts[0]
		}
	}
	v.matcher = language.NewMatcher(v.tags)
	return v, nil
}

// page is what a template shows. Fields that a page does not use are empty.
type page struct {
	// Name is the part of pages.html, and the start of the page's texts.
	Name    string
	invited setuplinks.Invitation
	Choices []setuplinks.Choice
	// Number is the one that was connected.
	Number string
	// Problem is the text that says what was wrong with the form.
	Problem string
	// Action is where the form goes, Continue where the page's link goes.
	Action, Continue string

	Lang  string
	texts map[string]string
}

// Organization is the name of the platform; empty on pages that know none.
func (p page) Organization() string { return plain(p.invited.Organization.Name) }

// plain leaves out characters that change the direction of the text around a name.
func plain(name string) string {
	return strings.Map(func(char rune) rune {
		if unicode.Is(unicode.Bidi_Control, char) {
			return -1
		}
		return char
	}, name)
}

// Plain is a name without characters that change the direction of the text around it.
func (page) Plain(name string) string { return plain(name) }

// Initial is the first letter of the platform's name.
func (p page) Initial() string {
	first, _ := utf8.DecodeRuneInString(strings.TrimSpace(p.Organization()))
	return strings.ToUpper(string(first))
}

// Has tells whether there is a text of that name.
func (p page) Has(name string) bool { return p.texts[name] != "" }

// T is a text of the language. {organization}, {customer}, {number} and {expires} in it are replaced.
func (p page) T(name string) string {
	return strings.NewReplacer(
		"{organization}", p.Organization(), "{customer}", plain(p.invited.Customer.Name), "{number}", p.Number,
		"{expires}", p.invited.Link.ExpiresAt.Format(p.texts["date"]),
	).Replace(p.texts[name])
}

// Own is a text of this page: its name starts with that of the page.
func (p page) Own(name string) string { return p.T(p.Name + "." + name) }

// show writes a page.
func (v *visit) show(status int, p page) {
	_, at, _ := v.views.matcher.Match(acceptLanguage(v.r)...)
	p.Lang, p.texts = v.views.tags[at].String(), v.views.texts[at]
	var out bytes.Buffer
	if err := v.views.layout.ExecuteTemplate(&out, "page", p); err != nil {
		v.log(err)
		http.Error(v.w, "The page cannot be shown.", http.StatusInternalServerError)
		return
	}
	v.write(status, "text/html; charset=utf-8", out.Bytes())
}

func acceptLanguage(r *http.Request) []language.Tag {
	tags, _, err := language.ParseAcceptLanguage(r.Header.Get("Accept-Language"))
	if err != nil {
		return nil
	}
	return tags
}

// file serves one of the embedded files.
func (v *visit) file(name, kind string) {
	content, err := files.ReadFile("files/" + name)
	if err != nil {
		v.fail(err)
		return
	}
	v.w.Header().Set("Cache-Control", "public, max-age=300")
	v.write(http.StatusOK, kind, content)
}

func (v *visit) write(status int, kind string, body []byte) {
	v.w.Header().Set("Content-Type", kind)
	v.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	v.w.WriteHeader(status)
	if v.r.Method != http.MethodHead {
		_, _ = v.w.Write(body)
	}
}
