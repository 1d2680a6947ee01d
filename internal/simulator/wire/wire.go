// Package wire holds the network's vocabulary that needs no state: its error codes, its
// message ids and its user ids. It is the simulator's own reading of the wire, shared
// with nobody, so that it can disagree with the adapter.
package wire

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
)

// Product is the network's name for itself in every body.
const Product = "whatsapp"

// Directions of a message, as its id tells them.
const (
	ToUser   byte = 0x11
	FromUser byte = 0x12
)

// MessageID mints an id as the network does: the user's digits, the direction and
// random hexadecimal text, all readable again.
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
	text := hex.AppendEncode(nil, random)
	for i, c := range text {
		if c >= 'a' {
			text[i] = c - 'a' + 'A'
		}
	}
	raw = append(raw, text...)
	raw = append(raw, 0x00)
	return "wamid." + base64.StdEncoding.EncodeToString(raw)
}

// ReadMessageID tells whose message an id names and which way it went; ok is false for
// an id that this network never minted.
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

// scramble is odd, so that multiplying by it loses nothing.
const scramble = 0x9E3779B97F4A7C15

// UserID is the id by which one business portfolio knows a user: the digits, scrambled
// so that nobody reads them, and unscrambled without remembering anybody. The
// generation makes another id for the same digits.
func UserID(digits, portfolio string, generation int) string {
	number, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return ""
	}
	return country(digits) + "." + strconv.FormatUint((number^key(portfolio, generation))*scramble, 10)
}

// ParentUserID is the id by which linked portfolios know a user together.
func ParentUserID(digits, parent string, generation int) string {
	id := UserID(digits, parent, generation)
	if id == "" {
		return ""
	}
	return id[:3] + "ENT." + id[3:]
}

// ReadUserID finds the digits that UserID scrambled; ok is false for another portfolio's
// id, another generation's, or an altered one.
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
	return binary.BigEndian.Uint64(mixed)*scramble + uint64(generation)*0xD1B54A32D192ED03 //nolint:gosec // wrapping around is the point
}

// inverse undoes the multiplication by an odd number (Newton's steps modulo 2^64).
func inverse(odd uint64) uint64 {
	x := odd
	for range 6 {
		x *= 2 - odd*x
	}
	return x
}

// countries are the calling codes that developers meet most; the rest is shown as US.
func countries() []struct{ prefix, country string } {
	return []struct{ prefix, country string }{
		{"351", "PT"},
		{"353", "IE"},
		{"971", "AE"},
		{"234", "NG"},
		{"254", "KE"},
		{"27", "ZA"},
		{"31", "NL"},
		{"33", "FR"},
		{"34", "ES"},
		{"39", "IT"},
		{"41", "CH"},
		{"44", "GB"},
		{"46", "SE"},
		{"49", "DE"},
		{"51", "PE"},
		{"52", "MX"},
		{"54", "AR"},
		{"55", "BR"},
		{"56", "CL"},
		{"57", "CO"},
		{"61", "AU"},
		{"62", "ID"},
		{"65", "SG"},
		{"81", "JP"},
		{"90", "TR"},
		{"91", "IN"},
	}
}

func country(digits string) string {
	for _, c := range countries() {
		if strings.HasPrefix(digits, c.prefix) {
			return c.country
		}
	}
	return "US"
}

// UserDigits reads a user's phone number as the network knows it, which in two countries
// is not as people write it: Brazil's newer ninth digit is left out beyond São Paulo and
// Rio, Mexico's older 1 is kept.
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

// Digits strips a phone number of all that people write between its digits; ok is false
// when something else is in it.
func Digits(number string) (digits string, ok bool) {
	plain := true
	for i := range len(number) {
		if number[i] < '0' || number[i] > '9' {
			plain = false
			break
		}
	}
	if !plain {
		kept := make([]byte, 0, len(number))
		for i := range len(number) {
			switch c := number[i]; {
			case c >= '0' && c <= '9':
				kept = append(kept, c)
			case c != '+' && c != ' ' && c != '-' && c != '(' && c != ')' && c != '.':
				return "", false
			}
		}
		number = string(kept)
	}
	return number, len(number) >= 7 && len(number) <= 15
}
