// The code blocks of sdk/go/README.md are inserted below, and then run by `make sdk`.
package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	parley "github.com/parley-chat/parley/sdk/go"
)

func run(ctx context.Context, number string, secrets []string, request *http.Request, body []byte) error {
	// README
	return err
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	body := []byte(`{"type":"contact.created","data":{"contact":{"id":"con_1"}}}`)
	now := fmt.Sprint(time.Now().Unix())
	signature := hmac.New(sha256.New, []byte("new"))
	fmt.Fprintf(signature, "%s.%s", now, body)
	request := &http.Request{Header: http.Header{}}
	request.Header.Set("X-Svc-Signature", fmt.Sprintf("t=%s,v1=%x", now, signature.Sum(nil)))
	request.Header.Set("X-Svc-Event", "contact.created")
	request.Header.Set("X-Svc-Event-Uid", "evt_1")
	if err := run(ctx, os.Getenv("PARLEY_NUMBER"), []string{"old", "new"}, request, body); err != nil {
		log.Fatal(err)
	}
}
