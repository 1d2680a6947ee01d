package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/signature"
)

const (
	secret      = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"
	otherSecret = "__8-_v38-_r5-Pf29fTz8vHw7-7t7Ovq6ejn5uXk4-I"
	sentBody    = `{"id":"evt_1","type":"contact.created","data":{"name":"Zoë"}}`
	sentAt      = "1700000000"
)

var sent = time.Unix(1_700_000_000, 0)

// verify runs the command, at the time of the delivery unless args has --at.
func verify(t *testing.T, body string, args ...string) (string, error) {
	t.Helper()
	var stdout bytes.Buffer
	args = append([]string{"webhooks", "verify", "--body", file(t, body), "--at", sentAt}, args...)
	err := run(t.Context(), args, nil, &stdout, &stdout)
	return stdout.String(), err
}

func file(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "body")
	require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
	return name
}

func TestWebhooksVerify_OK(t *testing.T) {
	t.Parallel()
	header := signature.Sign(sent, []byte(sentBody), otherSecret)
	out, err := verify(t, sentBody, "--secret", secret, "--secret", otherSecret, "--header", header)
	require.NoError(t, err)
	require.Equal(t, "OK: signed at 2023-11-14T22:13:20Z with secret 2 of 2; 62 bytes\n", out)

	_, err = verify(t, sentBody, "--secret", otherSecret, "--header", "x-svc-signature: "+header+"\n", "--at", "2023-11-14T23:18:20+01:00")
	require.NoError(t, err, "with the header's name pasted along, at the edge of the tolerance")
	_, err = verify(t, sentBody, "--secret", otherSecret, "--header", header, "--at", "1700003600", "--tolerance", "1h")
	require.NoError(t, err)
}

func TestWebhooksVerify_NoBodyOrTimeFlag_ReadsStandardInputAndClock(t *testing.T) {
	t.Parallel()
	var stdout bytes.Buffer
	command := (&program{stdout: &stdout}).webhooksVerify()
	command.SetIn(strings.NewReader(sentBody))
	command.SetArgs([]string{"--secret", secret, "--header", signature.Sign(time.Now(), []byte(sentBody), secret)})
	require.NoError(t, command.ExecuteContext(t.Context()))
	require.Contains(t, stdout.String(), "OK: ")
}

// A secret in a file or on standard input is in no command line.
func TestWebhooksVerify_SecretFile_OneSecretALine(t *testing.T) {
	t.Parallel()
	header := signature.Sign(sent, []byte(sentBody), otherSecret)
	out, err := verify(t, sentBody, "--secret-file", file(t, secret+"\n"+otherSecret+"\n"), "--header", header)
	require.NoError(t, err)
	require.Contains(t, out, "with secret 2 of 2")

	var stdout bytes.Buffer
	command := (&program{stdout: &stdout}).webhooksVerify()
	command.SetIn(strings.NewReader(otherSecret + "\n"))
	command.SetArgs([]string{"--secret-file", "-", "--header", header, "--body", file(t, sentBody), "--at", sentAt})
	require.NoError(t, command.ExecuteContext(t.Context()))
	require.Contains(t, stdout.String(), "OK: ")
}

func TestWebhooksVerify_BadDelivery_NamesTheFailedStep(t *testing.T) {
	t.Parallel()
	good := signature.Sign(sent, []byte(sentBody), secret)
	for name, c := range map[string]struct {
		body  string
		args  []string
		step  string
		words []string
	}{
		"an empty header": {sentBody, []string{"--header", " "}, stepMalformed, []string{"it is empty", "a proxy removed it"}},
		"no t":            {sentBody, []string{"--header", good[13:]}, stepMalformed, []string{"there is no t", "It must read t="}},
		"two t":           {sentBody, []string{"--header", "t=1," + good}, stepMalformed, []string{"more than one t"}},
		"cut short":       {sentBody, []string{"--header", good[:70]}, stepMalformed, []string{"a v1 has 54 characters instead of 64", "cut short"}},
		"an empty v1":     {sentBody, []string{"--header", "t=1700000000,v1="}, stepMalformed, []string{"a v1 has 0 characters"}},
		"the other header": {
			sentBody, []string{"--header", signature.Sign256([]byte(sentBody), secret)}, stepMalformed, []string{"This looks like X-Svc-Signature-256"},
		},
		"old": {sentBody, []string{"--header", good, "--at", "1700000301"}, stepSkew, []string{
			"t is 2023-11-14T22:13:20Z, which is 5m1s before 2023-11-14T22:18:21Z; 5m0s is allowed", "The signature itself matches.",
			"--at 2023-11-14T22:13:20Z",
		}},
		"from the future": {sentBody, []string{"--header", good, "--at", "1699999699"}, stepSkew, []string{"5m1s after", "clock of your machine is slow"}},
		"old and wrong":   {sentBody + "!", []string{"--header", good, "--at", "1800000000"}, stepSkew + ", " + stepSecret, []string{"FAIL clock skew", "FAIL wrong secret"}},
		"a revoked secret": {sentBody, []string{
			"--header", signature.Sign(sent, []byte(sentBody), otherSecret), "--revoked-secret", "x", "--revoked-secret", otherSecret,
		}, stepRevoked, []string{"signed with revoked secret 2 of 2", "If t is later than the revocation"}},
		"another secret": {
			sentBody,
			[]string{"--header", signature.Sign(sent, []byte(sentBody), otherSecret)},
			stepSecret,
			[]string{"none of the 1 secrets matches any of the 1 signatures over these 62 bytes", "the secret of this subscription", "--original"},
		},
		"an empty body": {"", []string{"--header", good}, stepSecret, []string{"The body is empty"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := verify(t, c.body, append([]string{"--secret", secret}, c.args...)...)
			require.ErrorIs(t, err, errUnverified)
			require.Equal(t, "the delivery does not verify: "+c.step, err.Error())
			for _, words := range c.words {
				require.Contains(t, out, words)
			}
		})
	}
}

func TestWebhooksVerify_WrongSecret_SaysWhatToCheck(t *testing.T) {
	t.Parallel()
	header := signature.Sign(sent, []byte(sentBody), secret)
	out, err := verify(t, sentBody, "--header", header, "--secret", secret+"\n", "--secret", "", "--secret", "short")
	require.ErrorContains(t, err, stepSecret)
	require.Contains(t, out, "Secret 1 matches without the white space around it")
	out, err = verify(t, sentBody, "--header", header, "--secret", "", "--secret", "short", "--original", file(t, sentBody))
	require.ErrorContains(t, err, stepSecret)
	require.Contains(t, out, "Secret 1 is empty: is its variable set?")
	require.Contains(t, out, "Secret 2 has 5 characters, ours have 43")
	require.Contains(t, out, "The body equals the original")
	out, err = verify(t, "a", "--header", header, "--secret", secret, "--original", file(t, "b"))
	require.ErrorContains(t, err, stepSecret)
	require.Contains(t, out, "The original does not match either")
}

func TestWebhooksVerify_AlteredBody_SaysWhereAndWhy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		original, received string
		words              []string
	}{
		"one byte": {sentBody, strings.Replace(sentBody, "evt_1", "evt_2", 1), []string{
			"first difference at byte 11, counted from 0: sent 0x31 '1', received 0x32 '2' (of 62 bytes sent, 62 received)",
			`Received: "{\"id\":\"evt_2\",\"type\":`,
		}},
		"a newline":       {sentBody, sentBody + "\n", []string{"sent the end, received 0x0a '\\n'", "A line break was added at the end"}},
		"no newline":      {sentBody + "\n", sentBody, []string{"The line break at the end was removed"}},
		"a mark in front": {sentBody, bom + sentBody, []string{"byte 0", "received 0xef", "byte order mark"}},
		"CRLF":            {"{\n}", "{\r\n}", []string{"byte 1", "between LF and CRLF"}},
		"LF":              {"{\r\n}", "{\n}", []string{"between LF and CRLF"}},
		"JSON again":      {sentBody, `{"type": "contact.created", "id": "evt_1", "data": {"name": "Zo\u00eb"}}`, []string{"It is the same JSON in other bytes"}},
		"JSON with room":  {sentBody, strings.ReplaceAll(sentBody, ":", ": "), []string{"It is the same JSON in other bytes"}},
		"cut":             {sentBody, sentBody[:40], []string{"first difference at byte 40", "received the end", "The end is missing"}},
		"nothing left":    {sentBody, "", []string{"first difference at byte 0", "The body is empty"}},
		"not UTF-8":       {"{\"a\":\"\xff\"}", "{\"a\":\"\uFFFD\"}", []string{"sent 0xff, received 0xef", "Bytes that are not UTF-8 were replaced"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			header := signature.Sign(sent, []byte(c.original), secret)
			out, err := verify(t, c.received, "--secret", secret, "--header", header, "--original", file(t, c.original))
			require.ErrorContains(t, err, stepAltered)
			for _, words := range append(c.words, "Verify the raw bytes") {
				require.Contains(t, out, words)
			}
			out, err = verify(t, c.received, "--secret", otherSecret, "--revoked-secret", secret, "--header", header, "--original", file(t, c.original))
			require.ErrorContains(t, err, stepAltered)
			require.Contains(t, out, "The original was signed with a revoked secret.")
		})
	}
}

func TestWebhooksVerify_AlteredBodyWithoutOriginal_GuessesTheChange(t *testing.T) {
	t.Parallel()
	for original, received := range map[string]string{
		sentBody:        sentBody + "\r\n",
		"{}\n":          "{}",
		`{"bom":1}`:     bom + `{"bom":1}`,
		"{\n1}":         "{\r\n1}",
		"{\r\n2}":       "{\n2}",
		"{\n3}":         "{\r\n3}\r\n",
		`{"a":1,"b":2}`: "{\n  \"a\": 1,\n  \"b\": 2\n}",
	} {
		out, err := verify(t, received, "--secret", secret, "--header", signature.Sign(sent, []byte(original), secret))
		require.ErrorContains(t, err, stepAltered, "%q", original)
		require.Contains(t, out, "first difference at byte")
	}
}

func TestWebhooksVerify_UnreadableFlags_Fails(t *testing.T) {
	t.Parallel()
	for words, args := range map[string][]string{
		"--at":             {"--header", "x", "--secret", "x", "--at", "yesterday"},
		"--body":           {"--header", "x", "--secret", "x", "--body", "/nonexistent"},
		"--original":       {"--header", "x", "--secret", "x", "--original", "/nonexistent"},
		"--secret-file P":  {"--header", "x"},
		"--secret-file: o": {"--header", "x", "--secret-file", "/nonexistent"},
		"is empty":         {"--header", "x", "--secret-file", os.DevNull},
		"only one of":      {"--header", "x", "--secret-file", "-", "--body", "-"},
		`"header"`:         {"--secret", "x"},
		"needs a comman":   nil,
	} {
		command := []string{"webhooks", "verify", "--body", os.DevNull}
		if args == nil {
			command = []string{"webhooks"}
		}
		err := run(context.WithoutCancel(t.Context()), append(command, args...), nil, &bytes.Buffer{}, &bytes.Buffer{})
		require.ErrorContains(t, err, words)
	}
}
