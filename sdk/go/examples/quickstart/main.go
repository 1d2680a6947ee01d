// Command quickstart sends a message, receives its message.sent event as a verified webhook, waits until
// the message is delivered and lists the conversation. It needs the variables that `parley dev` prints.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	parley "github.com/parley-chat/parley/sdk/go"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := parley.New(os.Getenv("PARLEY_KEY"), os.Getenv("PARLEY_URL"))
	check(err)
	number := os.Getenv("PARLEY_NUMBER")

	// Subscribe to an event, and receive it here.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	subscription, err := client.CreateSubscription(ctx, parley.WebhookSubscriptionDraft{
		URL: "http://" + listener.Addr().String(), Events: parley.EventTypes{parley.EventTypeMessageSent},
	})
	check(err)
	events := make(chan *parley.WebhookEvent, 10)
	server := &http.Server{Handler: receive(*subscription.Data.InitialSecret, events), ReadHeaderTimeout: 5 * time.Second}
	go func() { log.Fatal(server.Serve(listener)) }()

	// Send a message. The client makes an Idempotency-Key and retries, so that it is sent once.
	sent, err := client.SendMessage(ctx, number, parley.SendText{
		To: parley.Ptr("+15550100001"), Text: parley.TextContent{Body: "Hello from Go"},
	})
	check(err)
	fmt.Println("accepted", sent.Data.ID)

	for told := false; !told; {
		event := <-events
		var body parley.MessageSentEvent
		check(json.Unmarshal(event.Body, &body))
		told = body.Data.Message.ID == sent.Data.ID
		fmt.Println("verified", event.Type, event.UID)
	}

	message := sent
	for message.Data.Status != parley.MessageStatusDelivered && message.Data.Status != parley.MessageStatusRead {
		time.Sleep(200 * time.Millisecond)
		message, err = client.GetMessage(ctx, number, sent.Data.ID)
		check(err)
	}
	fmt.Println("status", message.Data.Status)

	filter := &parley.ListMessagesParams{ConversationID: message.Data.ConversationID, Limit: 1}
	for one, err := range client.ListMessages(number, filter).All(ctx) {
		check(err)
		fmt.Println("listed", one.ID, one.Direction, one.Status)
	}
	_, err = client.DeleteSubscription(ctx, subscription.Data.ID)
	check(err)
}

func receive(secret string, events chan<- *parley.WebhookEvent) http.Handler {
	verifier := parley.NewVerifier(secret)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 4<<20))
		if err != nil {
			return
		}
		event, err := verifier.Verify(r.Header, body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		events <- event
		w.WriteHeader(http.StatusNoContent)
	})
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
