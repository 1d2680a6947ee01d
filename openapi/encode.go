package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// json writes the place as JSON, members in the order of the yaml, so that the served document is
// as readable as its source.
func (p place) json() ([]byte, error) { return p.write(nil) }

func (p place) write(as *serving) ([]byte, error) {
	w := &writer{as: as}
	w.strings = json.NewEncoder(&w.out)
	w.strings.SetEscapeHTML(false)
	if err := w.value(p.node); err != nil {
		return nil, err
	}
	return w.out.Bytes(), nil
}

type writer struct {
	out     bytes.Buffer
	strings *json.Encoder
	// as is nil for the contract itself.
	as *serving
}

func (w *writer) value(node *yaml.Node) error {
	node = target(node)
	if w.as != nil && node == w.as.servers {
		return w.server()
	}
	if w.as != nil && w.as.titles[node] != "" {
		return w.text(w.as.titles[node])
	}
	switch node.Kind {
	case yaml.MappingNode:
		return w.object(node)
	case yaml.SequenceNode:
		return w.array(node)
	default:
		return w.scalar(node)
	}
}

func (w *writer) object(node *yaml.Node) error {
	seen := make(map[string]bool, len(node.Content)/2)
	w.out.WriteByte('{')
	first := true
	for index := 0; index+1 < len(node.Content); index += 2 {
		name := node.Content[index]
		if w.as.omits(node, name.Value, node.Content[index+1]) {
			continue
		}
		switch {
		case name.Kind != yaml.ScalarNode || name.ShortTag() == "!!merge":
			return fmt.Errorf("line %d: only plain names are supported", name.Line)
		case seen[name.Value]:
			return fmt.Errorf("line %d: %q is given twice", name.Line, name.Value)
		}
		seen[name.Value] = true
		if !first {
			w.out.WriteByte(',')
		}
		first = false
		if err := w.text(w.as.renamed(node, name.Value)); err != nil {
			return err
		}
		w.out.WriteByte(':')
		if err := w.value(node.Content[index+1]); err != nil {
			return err
		}
	}
	if w.as != nil && w.as.unserved[node] {
		w.out.WriteString(`,"x-served":false`)
	}
	if w.as != nil && w.as.samples[node] != nil {
		w.out.WriteString(`,"x-codeSamples":`)
		w.out.Write(w.as.samples[node])
	}
	w.out.WriteByte('}')
	return nil
}

func (w *writer) server() error {
	w.out.WriteString(`[{"url":`)
	err := w.text(w.as.address)
	w.out.WriteString(`}]`)
	return err
}

func (w *writer) array(node *yaml.Node) error {
	w.out.WriteByte('[')
	for index, item := range node.Content {
		if index > 0 {
			w.out.WriteByte(',')
		}
		if err := w.value(item); err != nil {
			return err
		}
	}
	w.out.WriteByte(']')
	return nil
}

func (w *writer) scalar(node *yaml.Node) error {
	switch node.ShortTag() {
	case "!!null":
		w.out.WriteString("null")
		return nil
	case "!!bool", "!!int", "!!float":
		var value any
		if err := node.Decode(&value); err != nil {
			return err
		}
		encoded, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("line %d: %w", node.Line, err)
		}
		w.out.Write(encoded)
		return nil
	default:
		// Unquoted times become text, because JSON has no type for them.
		return w.text(node.Value)
	}
}

func (w *writer) text(text string) error {
	if err := w.strings.Encode(text); err != nil {
		return err
	}
	w.out.Truncate(w.out.Len() - 1)
	return nil
}
