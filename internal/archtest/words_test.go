package archtest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// wireWord matches the form of the provider's names: parts joined by underscores, or capitals.
var wireWord = regexp.MustCompile(`\b(?:[a-z][a-z0-9]*(?:_[a-z0-9]+)+|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|[A-Z]{5,})\b`)

// ourWords are columns, SQL keywords and event types of ours that the adapter contains as well.
const ourWords = `phone_numbers message_status LOCKED is_valid`

// TestDomain_NoProviderWords compares the literals and identifiers of internal/domain with
// the words and error codes that the adapter reads and writes. Words that the public contract
// prints, and the names that the port (internal/provider) declares, are allowed.
func TestDomain_NoProviderWords(t *testing.T) {
	t.Parallel()
	words, codes := adapterWords(t)
	require.Greater(t, len(words), 100, "the adapter's words were found")
	require.Greater(t, len(codes), 50, "and its error codes")
	eachFile(t, "internal/domain", func(path string, file *ast.File) {
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.ImportSpec:
				return false
			case *ast.BasicLit:
				if node.Kind == token.INT && codes[node.Value] {
					t.Errorf("%s has %s, an error code of the provider: give its meaning a name in internal/provider", path, node.Value)
				}
				for _, word := range wireWord.FindAllString(node.Value, -1) {
					if node.Kind == token.STRING && words[word] {
						t.Errorf("%s says %q, a word of the provider: translate it in %s", path, word, adapter)
					}
				}
			case *ast.Ident:
				if snake := snakeCase(node.Name); strings.Contains(snake, "_") && words[snake] {
					t.Errorf("%s names something %s, a word of the provider: use a neutral name", path, node.Name)
				}
			}
			return true
		})
	})
}

// adapterWords are the words in the literals and struct tags of the adapter, and the keys of its
// error table, without those that the contract prints.
func adapterWords(t *testing.T) (words, codes map[string]bool) {
	t.Helper()
	contract, err := os.ReadFile(filepath.Join(root(t), "openapi", "openapi.yaml"))
	require.NoError(t, err)
	printed := map[string]bool{}
	for word := range strings.FieldsSeq(ourWords) {
		printed[word] = true
	}
	eachFile(t, "internal/provider", func(path string, file *ast.File) {
		ast.Inspect(file, func(node ast.Node) bool {
			if name, is := node.(*ast.Ident); is && !strings.HasPrefix(path, adapter) {
				printed[snakeCase(name.Name)] = true
			}
			return true
		})
	})
	for _, word := range regexp.MustCompile(`[A-Za-z0-9_]+`).FindAllString(string(contract), -1) {
		printed[word] = true
	}
	words, codes = map[string]bool{}, map[string]bool{}
	eachFile(t, adapter, func(_ string, file *ast.File) {
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.ImportSpec:
				return false
			case *ast.KeyValueExpr:
				if key, is := node.Key.(*ast.BasicLit); is && key.Kind == token.INT {
					if code, _ := strconv.Atoi(key.Value); code > 10_000 {
						codes[key.Value] = true
					}
				}
			case *ast.BasicLit:
				for _, word := range wireWord.FindAllString(node.Value, -1) {
					words[word] = words[word] || node.Kind == token.STRING && !printed[word]
				}
			}
			return true
		})
	})
	return words, codes
}

// eachFile parses the Go files below a folder, without tests.
func eachFile(t *testing.T, folder string, visit func(path string, file *ast.File)) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root(t), folder), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err == nil {
			name, _ := filepath.Rel(root(t), path)
			visit(name, file)
		}
		return err
	})
	require.NoError(t, err)
}

// snakeCase converts a Go name to the provider's style: PartnerRemoved becomes partner_removed.
func snakeCase(name string) string {
	return strings.ToLower(regexp.MustCompile(`([a-z0-9])([A-Z])`).ReplaceAllString(name, "${1}_${2}"))
}
