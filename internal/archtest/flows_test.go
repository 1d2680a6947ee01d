package archtest_test

import (
	"go/ast"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// maxFiles is how many files a reader needs at most for the numbered steps of a section of
// docs/flows.md. Each step of these sections begins with a file and its functions.
func maxFiles() map[string]int {
	return map[string]int{"An event and its deliveries": 8, "A callback of the provider": 7, "A message": 9}
}

var (
	section = regexp.MustCompile(`(?m)^## (.+)$`)
	step    = regexp.MustCompile(`(?m)^\d+\. (.*)$`)
	// located is a file or folder in backticks, with the functions that are named right behind it.
	located = regexp.MustCompile("`([\\w./-]+(?:/[\\w-]+|\\.go))`((?:,?\\s+`\\w+`)*)")
	quoted  = regexp.MustCompile("`(\\w+)`")
)

// TestFlows_NamedFunctionsExist reads docs/flows.md. A file without a folder is in the folder that
// was named last in its section.
func TestFlows_NamedFunctionsExist(t *testing.T) {
	t.Parallel()
	names := 0
	for title, text := range sectionsOf(t, "docs/flows.md") {
		folder := ""
		for _, found := range located.FindAllStringSubmatch(text, -1) {
			path := found[1]
			if !strings.Contains(path, "/") {
				path = filepath.Join(folder, path)
			} else if folder = path; filepath.Ext(path) == ".go" {
				folder = filepath.Dir(path)
			}
			declared := functionsOf(t, path)
			if declared == nil {
				t.Errorf("docs/flows.md, %q, names %s, which does not exist", title, path)
				continue
			}
			for _, function := range quoted.FindAllStringSubmatch(found[2], -1) {
				if names++; !declared[function[1]] {
					t.Errorf("docs/flows.md, %q, names %s in %s, which does not declare it", title, function[1], path)
				}
			}
		}
	}
	require.Greater(t, names, 60, "the named functions were found")
}

func TestFlows_StepsNameFewFiles(t *testing.T) {
	t.Parallel()
	sections := sectionsOf(t, "docs/flows.md")
	for title, most := range maxFiles() {
		files := map[string]bool{}
		steps := step.FindAllStringSubmatch(strings.ReplaceAll(sections[title], "\n   ", " "), -1)
		for number, text := range steps {
			found := located.FindAllStringSubmatch(text[1], -1)
			if len(found) == 0 || !strings.HasPrefix(text[1], found[0][0]) || found[0][2] == "" {
				t.Errorf("docs/flows.md, %q: step %d does not begin with a file and its functions", title, number+1)
			}
			for _, one := range found {
				files[one[1]] = true
			}
		}
		require.NotEmpty(t, files, "docs/flows.md has no steps below %q", title)
		if len(files) > most {
			t.Errorf("docs/flows.md, %q, needs %d files; at most %d are allowed", title, len(files), most)
		}
	}
}

// sectionsOf returns the text below each heading of the second level.
func sectionsOf(t *testing.T, path string) map[string]string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root(t), path))
	require.NoError(t, err)
	titles, texts := section.FindAllStringSubmatch(string(content), -1), section.Split(string(content), -1)
	sections := make(map[string]string, len(titles))
	for i, title := range titles {
		sections[title[1]] = texts[i+1]
	}
	return sections
}

// functionsOf returns the functions and methods that a file or folder declares; nil if it does not
// exist.
func functionsOf(t *testing.T, path string) map[string]bool {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root(t), path)); err != nil {
		return nil
	}
	declared := map[string]bool{}
	eachFile(t, path, func(_ string, file *ast.File) {
		for _, one := range file.Decls {
			if function, is := one.(*ast.FuncDecl); is {
				declared[function.Name.Name] = true
			}
		}
	})
	return declared
}

// place is a path of this repository in backticks or as the target of a link.
var place = regexp.MustCompile("(?:`|\\]\\()((?:internal|cmd|schema|docs|openapi|scripts|tools)/[\\w./-]+)[`)#]")

// TestDocs_NamedPathsExist reads every document. Names with "noun" or "NNNN" stand for others. Of a test only the
// directory is looked for here; scripts/conformance.sh looks for the test.
func TestDocs_NamedPathsExist(t *testing.T) {
	t.Parallel()
	names := 0
	err := filepath.WalkDir(root(t), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		content, err := os.ReadFile(path)
		for _, found := range place.FindAllStringSubmatch(string(content), -1) {
			if strings.Contains(found[1], "noun") || strings.Contains(found[1], "NNNN") {
				continue
			}
			names++
			named, _, _ := strings.Cut(found[1], ".Test")
			if _, err := os.Stat(filepath.Join(root(t), named)); err != nil {
				document, _ := filepath.Rel(root(t), path)
				t.Errorf("%s names %s, which does not exist", document, named)
			}
		}
		return err
	})
	require.NoError(t, err)
	require.Greater(t, names, 60, "the named paths were found")
}
