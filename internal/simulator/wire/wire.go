// Package wire holds what the provider's API needs everywhere and what has no state: error
// codes, message ids, user ids, and the reading and writing of HTTP bodies. The adapter does
// not use it, so that a mistake here is found there.
package wire

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// Product is the network's name for itself in every body.
const Product = "whatsapp"

// Directions of a message, as encoded in its id.
const (
	ToUser   byte = 0x11
	FromUser byte = 0x12
)

// MessageID returns a new id in the network's encoding: the user's digits, the direction and
// random hexadecimal text.
func MessageID(digits string, direction byte) string {
	length := 9
	if direction == FromUser {
		length = 10
	}
	random := make([]byte, length)
	_, _ = rand.Read(random) // never fails
	raw := make([]byte, 0, 48)
	raw = append(raw, 0x1C, 0x18, byte(len(digits))) //nolint:gosec // at most 15
	raw = append(raw, digits...)
	raw = append(raw, 0x15, 0x02, 0x00, direction, 0x18, byte(2*length))
	raw = fmt.Appendf(raw, "%X", random)
	raw = append(raw, 0x00)
	return "wamid." + base64.StdEncoding.EncodeToString(raw)
}

// ReadMessageID decodes the user's digits and the direction of a message id. ok is false for
// an id in another encoding.
func ReadMessageID(id string) (digits string, direction byte, ok bool) {
	text, found := strings.CutPrefix(id, "wamid.")
	raw, err := base64.StdEncoding.DecodeString(text)
	if !found || err != nil || len(raw) < 4 || raw[0] != 0x1C || raw[1] != 0x18 {
		return "", 0, false
	}
	end := 3 + int(raw[2])
	if len(raw) < end+4 {
		return "", 0, false
	}
	direction = raw[end+3]
	return string(raw[3:end]), direction, direction == ToUser || direction == FromUser
}

// scramble is odd, so that multiplying by it can be reversed.
const scramble = 0x9E3779B97F4A7C15

// UserID returns the id by which one business portfolio knows a user. It encodes the digits,
// so that ReadUserID needs no table. Another generation gives another id for the same digits.
func UserID(digits, portfolio string, generation int) string {
	number, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return ""
	}
	return country(digits) + "." + strconv.FormatUint((number^key(portfolio, generation))*scramble, 10)
}

// ParentUserID returns the id by which linked portfolios know a user.
func ParentUserID(digits, parent string, generation int) string {
	id := UserID(digits, parent, generation)
	if id == "" {
		return ""
	}
	return id[:3] + "ENT." + id[3:]
}

// ReadUserID decodes the digits of a user id. ok is false for an id of another portfolio or
// another generation, or a changed one.
func ReadUserID(id, portfolio string, generation int) (digits string, ok bool) {
	if len(id) < 4 || id[2] != '.' {
		return "", false
	}
	scrambled, err := strconv.ParseUint(strings.TrimPrefix(id[3:], "ENT."), 10, 64)
	if err != nil {
		return "", false
	}
	number := (scrambled * inverse(scramble)) ^ key(portfolio, generation)
	digits = strconv.FormatUint(number, 10)
	if len(digits) < 7 || len(digits) > 15 || country(digits) != id[:2] {
		return "", false
	}
	return digits, true
}

func key(portfolio string, generation int) uint64 {
	mixed := make([]byte, 8)
	for i := range len(portfolio) {
		mixed[i%8] = mixed[i%8]*31 + portfolio[i]
	}
	return binary.BigEndian.Uint64(mixed)*scramble + uint64(generation)*0xD1B54A32D192ED03 //nolint:gosec // overflow is intended
}

// inverse returns the inverse of an odd number modulo 2^64, by Newton's method.
func inverse(odd uint64) uint64 {
	x := odd
	for range 6 {
		x *= 2 - odd*x
	}
	return x
}

// countries holds the most common calling codes. Any other number is shown as US.
var countries = map[string]string{
	"351": "PT", "353": "IE", "971": "AE", "234": "NG", "254": "KE", "27": "ZA", "31": "NL", "33": "FR", "34": "ES",
	"39": "IT", "41": "CH", "44": "GB", "46": "SE", "49": "DE", "51": "PE", "52": "MX", "54": "AR", "55": "BR",
	"56": "CL", "57": "CO", "61": "AU", "62": "ID", "65": "SG", "81": "JP", "90": "TR", "91": "IN",
}

func country(digits string) string {
	for length := range min(len(digits), 4) {
		if found := countries[digits[:length]]; found != "" {
			return found
		}
	}
	return "US"
}

// UserDigits returns the wa_id of a phone number. It differs from the digits in two countries:
// Brazilian numbers outside of São Paulo and Rio have no ninth digit, Mexican numbers have a 1
// after the country code.
func UserDigits(number string) (digits string, ok bool) {
	digits, ok = Digits(number)
	switch {
	case len(digits) == 13 && strings.HasPrefix(digits, "55") && digits[2] >= '3' && digits[4] == '9':
		digits = digits[:4] + digits[5:]
	case len(digits) == 12 && strings.HasPrefix(digits, "52"):
		digits = "521" + digits[2:]
	}
	return digits, ok
}

// Digits removes the separators that people write in a phone number. ok is false when other
// characters remain, or not 7 to 15 digits.
func Digits(number string) (digits string, ok bool) {
	digits = strings.Map(func(c rune) rune {
		if strings.ContainsRune("+ -().", c) {
			return -1
		}
		return c
	}, number)
	if strings.Trim(digits, "0123456789") != "" {
		return "", false
	}
	return digits, len(digits) >= 7 && len(digits) <= 15
}
