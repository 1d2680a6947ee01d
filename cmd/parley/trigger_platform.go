package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
)

// newCustomer creates a customer with a name of its own.
func (t *triggering) newCustomer(ctx context.Context) (id string, err error) {
	var made struct {
		ID string `json:"id"`
	}
	err = t.api.call(ctx, http.MethodPost, "/customers", fields{"name": "Bakery " + rand.Text()[:4]}, &made)
	return made.ID, err
}

func (t *triggering) customer(ctx context.Context) (string, error) {
	id, err := t.newCustomer(ctx)
	return id + " was created", err
}

func (t *triggering) renameCustomer(ctx context.Context) (string, error) {
	id, err := t.newCustomer(ctx)
	if err != nil {
		return "", err
	}
	err = t.api.call(ctx, http.MethodPatch, "/customers/"+id, fields{"name": "Brewery " + rand.Text()[:4]}, nil)
	return id + " was created and renamed", err
}

func (t *triggering) archiveCustomer(ctx context.Context) (string, error) {
	id, err := t.newCustomer(ctx)
	if err != nil {
		return "", err
	}
	err = t.api.call(ctx, http.MethodDelete, "/customers/"+id, nil, nil)
	return id + " was created and archived", err
}

// link is a setup link as the API answers it.
type link struct {
	ID  string `json:"id"`
	URL string `json:"setup_url"`
}

func (t *triggering) newLink(ctx context.Context) (made link, customer string, err error) {
	if customer, err = t.newCustomer(ctx); err != nil {
		return made, "", err
	}
	err = t.api.call(ctx, http.MethodPost, "/customers/"+customer+"/setup_links", fields{}, &made)
	return made, customer, err
}

func (t *triggering) setupLink(ctx context.Context) (string, error) {
	made, customer, err := t.newLink(ctx)
	return fmt.Sprintf("%s was created for %s; open it to connect a number:\n%s", made.ID, customer, made.URL), err
}

// onboard walks through the setup pages as a customer's browser does, and through the dialog by its shortcut at the
// simulator.
func (t *triggering) onboard(ctx context.Context) (string, error) {
	made, customer, err := t.newLink(ctx)
	if err != nil {
		return "", err
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return "", err
	}
	visitor := forwarder()
	visitor.Jar, visitor.Timeout = jar, callTimeout
	page, err := url.Parse(made.URL)
	if err != nil {
		return "", err
	}
	steps := page.JoinPath("../links", made.ID)
	if _, err := visit(ctx, visitor, http.MethodGet, made.URL, nil); err != nil {
		return "", err
	}
	dialog, err := visit(ctx, visitor, http.MethodGet, steps.JoinPath("dialog").String(), nil)
	if err != nil {
		return "", err
	}
	if dialog.Query().Get("redirect_uri") == "" {
		return "", errors.New("the setup page does not lead to the provider's dialog: is the network the simulator?")
	}
	signed, err := t.sim(ctx, "signup", fields{"business_name": "Bakery"})
	if err != nil {
		return "", err
	}
	back, err := url.Parse(dialog.Query().Get("redirect_uri"))
	if err != nil {
		return "", err
	}
	code, _ := signed["code"].(string)
	back.RawQuery = url.Values{"code": {code}, "state": {dialog.Query().Get("state")}}.Encode()
	if _, err := visit(ctx, visitor, http.MethodGet, back.String(), nil); err != nil {
		return "", err
	}
	granted, _ := signed["data"].(fields)
	number, _ := granted[numberField].(string)
	if _, err := visit(ctx, visitor, http.MethodPost, steps.JoinPath("number").String(), url.Values{numberField: {number}}); err != nil {
		return "", err
	}
	if _, err := visit(ctx, visitor, http.MethodPost, steps.JoinPath("pin").String(), url.Values{"pin": {"123456"}}); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s connected the number %s by %s", customer, number, made.ID), nil
}

// visit opens a page or posts its form, and returns where it redirects to, which is empty if it does not.
func visit(ctx context.Context, visitor *http.Client, method, address string, form url.Values) (to *url.URL, err error) {
	request, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	answer, err := visitor.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode >= http.StatusBadRequest {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswerBytes)) // it only explains the status
		return nil, fmt.Errorf("the setup page %s answered %d: %s", request.URL.Path, answer.StatusCode, text)
	}
	if to, err = answer.Location(); errors.Is(err, http.ErrNoLocation) {
		return &url.URL{}, nil
	}
	return to, err
}

// rejectTemplate submits a template that the simulator rejects because of its name.
func (t *triggering) rejectTemplate(ctx context.Context) (string, error) {
	name := "reject_" + strings.ToLower(rand.Text()[:6])
	err := t.api.call(ctx, http.MethodPost, "/"+t.number+"/templates", fields{
		"name": name, "language": "en_US", "category": "UTILITY",
		"components": []fields{{"type": "BODY", "text": "Your order is ready."}},
	}, nil)
	return fmt.Sprintf("the template %s was submitted; its status becomes rejected in a few seconds", name), err
}
