// Command conformance compares docs/conformance.md with the results of the tests. It fails when a row names no test, or
// a test that does not exist, did not run, was skipped or failed.
//
// usage: conformance DOCUMENT RESULTS
//
// RESULTS has the events of `go test -json`, one on each line.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

const module = "github.com/parley-chat/parley/"

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: conformance DOCUMENT RESULTS")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(document, results string, stdout io.Writer) error {
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	events, err := os.Open(results)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s does not exist: `make race` writes it", results)
	} else if err != nil {
		return err
	}
	defer func() { _ = events.Close() }()
	ended, err := read(events)
	if err != nil {
		return fmt.Errorf("%s: %w", results, err)
	}
	rows, problems := check(string(text), ended)
	if rows == 0 {
		problems = append(problems, "there are no rows")
	}
	if len(problems) > 0 {
		return fmt.Errorf("%s: %s", document, strings.Join(problems, "\n"+document+": "))
	}
	_, err = fmt.Fprintf(stdout, "%s: each of %d rows is proved by tests that passed\n", document, rows)
	return err
}

// outcome is how a test ended. A larger one hides a smaller one.
type outcome int

const (
	unknown outcome = iota
	passed
	skipped
	failed
)

// read returns how each test ended, by directory and name, such as `internal/domain/labels.TestService_List`. A skipped
// or failed subtest counts for the tests around it, too.
func read(events io.Reader) (map[string]outcome, error) {
	outcomes := map[string]outcome{"pass": passed, "skip": skipped, "fail": failed}
	ended := map[string]outcome{}
	for lines := json.NewDecoder(events); ; {
		var event struct{ Action, Package, Test string }
		if err := lines.Decode(&event); errors.Is(err, io.EOF) {
			return ended, nil
		} else if err != nil {
			return nil, err
		}
		if event.Test == "" {
			continue
		}
		for name := event.Test; name != ""; {
			key := strings.TrimPrefix(event.Package, module) + "." + name
			ended[key] = max(ended[key], outcomes[event.Action])
			around := max(0, strings.LastIndex(name, "/"))
			if name = name[:around]; outcomes[event.Action] == passed {
				break // the tests around it end by themselves
			}
		}
	}
}

var (
	divider = regexp.MustCompile(`^\|[-:| ]+\|$`)
	proof   = regexp.MustCompile("^`([^` ]+\\.(?:Test|Fuzz)[^` ]*)`$")
)

// check returns how many rows the tables of a document have, and what is wrong with them.
func check(document string, ended map[string]outcome) (rows int, problems []string) {
	lines, number, header := bufio.NewScanner(strings.NewReader(document)), 0, ""
	for lines.Scan() {
		number++
		line := strings.TrimSpace(lines.Text())
		switch {
		case !strings.HasPrefix(line, "|"):
			header = ""
		case header == "":
			header = line
		case !divider.MatchString(line):
			rows++
			for _, problem := range checkRow(line, ended) {
				problems = append(problems, fmt.Sprintf("line %d: %s", number, problem))
			}
		}
	}
	return rows, problems
}

func checkRow(line string, ended map[string]outcome) (problems []string) {
	cells := strings.Split(strings.Trim(line, "|"), "|")
	if len(cells) != 2 || strings.TrimSpace(cells[0]) == "" {
		return []string{"a row has a rule and a proof"}
	}
	for named := range strings.SplitSeq(cells[1], "<br>") {
		found := proof.FindStringSubmatch(strings.TrimSpace(named))
		if found == nil {
			problems = append(problems, fmt.Sprintf("%q is no proof: name a test as `internal/domain/labels.TestService_List`", strings.TrimSpace(named)))
			continue
		}
		switch ended[found[1]] {
		case passed:
		case skipped:
			problems = append(problems, found[1]+" was skipped, or a part of it")
		case failed:
			problems = append(problems, found[1]+" failed")
		default:
			problems = append(problems, found[1]+" does not exist or did not run")
		}
	}
	return problems
}
