package main

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
)

// gistRunes is how much of a message's text is shown in a line.
const gistRunes = 40

// eventBody has the fields of all events that tell most about them.
type eventBody struct {
	Entry []struct {
		Changes []struct {
			Value struct {
				Messages []gistMessage `json:"messages"`
				Statuses []struct {
					ID        string `json:"id"`
					Status    string `json:"status"`
					Recipient string `json:"recipient_id"`
					Errors    []struct {
						Code  int    `json:"code"`
						Title string `json:"title"`
					} `json:"errors"`
				} `json:"statuses"`
			} `json:"value"`
		} `json:"changes"`
	} `json:"entry"`
	Data struct {
		Message      gistMessage  `json:"message"`
		MessageID    string       `json:"message_id"`
		CustomerID   string       `json:"customer_id"`
		Contact      gistResource `json:"contact"`
		Conversation gistResource `json:"conversation"`
		Customer     gistResource `json:"customer"`
	} `json:"data"`
}

type gistMessage struct {
	From string `json:"from"`
	// FromUser is the sender's id, also if the phone number is hidden.
	FromUser string `json:"from_user_id"`
	To       string `json:"to"`
	Type     string `json:"type"`
	Body     string `json:"body"`
	Text     struct {
		Body string `json:"body"`
	} `json:"text"`
}

type gistResource struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Status string `json:"status"`
}

// gist tells in a few words what the event with this body is about; empty if it knows nothing of it.
func gist(body []byte) string {
	var event eventBody
	if json.Unmarshal(body, &event) != nil {
		return ""
	}
	for _, entry := range event.Entry {
		for _, change := range entry.Changes {
			for _, message := range change.Value.Messages {
				return words("from "+cmp.Or(message.From, message.FromUser), message.Type, quoted(message.Text.Body))
			}
			for _, status := range change.Value.Statuses {
				failure := ""
				if len(status.Errors) > 0 {
					failure = strconv.Itoa(status.Errors[0].Code) + " " + status.Errors[0].Title
				}
				return words("to "+status.Recipient, status.Status, failure)
			}
		}
	}
	data := event.Data
	switch {
	case data.Message.Type != "":
		return words("to "+data.Message.To, data.Message.Type, quoted(data.Message.Body))
	case data.MessageID != "":
		return data.MessageID
	}
	about := data.Customer
	for _, other := range []gistResource{data.Conversation, data.Contact, {ID: data.CustomerID}} {
		about = cmp.Or(about, other)
	}
	return words(about.ID, about.Name, about.Status)
}

func quoted(text string) string {
	if text == "" {
		return ""
	}
	if runes := []rune(text); len(runes) > gistRunes {
		text = string(runes[:gistRunes]) + "…"
	}
	return strconv.Quote(text)
}

// words joins those that are not empty.
func words(all ...string) string {
	return strings.Join(strings.Fields(strings.Join(all, " ")), " ")
}
