package openapi

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// place is a value of the document with its position. The zero place is a value that does not exist.
type place struct {
	// pointer is the JSON pointer, escaped for the fragment of a URL.
	pointer string
	// name is the last token of the pointer, as the document spells it.
	name string
	node *yaml.Node
}

func parse(source []byte) (place, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(source, &document); err != nil {
		return place{}, err
	}
	if len(document.Content) == 0 {
		return place{}, fmt.Errorf("the document is empty")
	}
	return place{node: document.Content[0]}, nil
}

func (p place) exists() bool { return p.node != nil }

// at returns the member at a path of names.
func (p place) at(names ...string) place {
	for _, name := range names {
		p = p.member(name)
	}
	return p
}

func (p place) member(name string) place {
	node := target(p.node)
	if node == nil || node.Kind != yaml.MappingNode {
		return place{}
	}
	for index := 0; index+1 < len(node.Content); index += 2 {
		if node.Content[index].Value == name {
			return p.child(name, node.Content[index+1])
		}
	}
	return place{}
}

func (p place) members() []place {
	node := target(p.node)
	if node == nil || node.Kind != yaml.MappingNode {
		return nil
	}
	found := make([]place, 0, len(node.Content)/2)
	for index := 0; index+1 < len(node.Content); index += 2 {
		found = append(found, p.child(node.Content[index].Value, node.Content[index+1]))
	}
	return found
}

func (p place) items() []place {
	node := target(p.node)
	if node == nil || node.Kind != yaml.SequenceNode {
		return nil
	}
	found := make([]place, 0, len(node.Content))
	for index, item := range node.Content {
		found = append(found, p.child(strconv.Itoa(index), item))
	}
	return found
}

// text is the scalar as written, or "".
func (p place) text() string {
	if node := target(p.node); node != nil && node.Kind == yaml.ScalarNode {
		return node.Value
	}
	return ""
}

func (p place) child(name string, node *yaml.Node) place {
	token := strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
	return place{
		pointer: p.pointer + "/" + url.PathEscape(token),
		name:    name,
		node:    node,
	}
}

// follow returns the target of a local reference such as `#/components/parameters/Limit`.
func (p place) follow(reference string) place {
	tokens, ok := strings.CutPrefix(reference, "#/")
	if !ok {
		return place{}
	}
	for token := range strings.SplitSeq(tokens, "/") {
		unescaped, err := url.PathUnescape(token)
		if err != nil {
			return place{}
		}
		p = p.member(strings.ReplaceAll(strings.ReplaceAll(unescaped, "~1", "/"), "~0", "~"))
	}
	return p
}

func target(node *yaml.Node) *yaml.Node {
	if node != nil && node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}
