package trace

// maxDepth is the maximum depth of JSON, as in package encoding/json.
const maxDepth = 10000

// A member is a wanted member of a JSON object. It can have members itself.
type member struct {
	members map[string]*member
	slots   []int // indexes of its text in object.texts
	seen    int   // number of the latest object in which it was
}

// add adds a path to m.
func (m *member) add(path []string, slot int) {
	for _, name := range path {
		next := m.members[name]
		if next == nil {
			next = new(member)
			if m.members == nil {
				m.members = map[string]*member{}
			}
			m.members[name] = next
		}
		m = next
	}
	m.slots = append(m.slots, slot)
}

// An object reads the wanted members of JSON objects. It accepts the same texts as encoding/json, at
// several times its speed, because the text is read once and other members are skipped.
type object struct {
	wanted member
	texts  [][]byte // of the wanted members: strings with their quotation marks, numbers, true or false
	number int      // of the object
	line   []byte
}

// read reads the object in line. It returns false if line is not one JSON object.
func (o *object) read(line []byte) bool {
	o.line = line
	o.number++
	clear(o.texts)
	i := o.space(0)
	if o.at(i) != '{' {
		return false
	}
	i = o.object(i, 1, &o.wanted)
	return i >= 0 && o.space(i) == len(line)
}

// at returns the byte at i, or 0 after the end.
func (o *object) at(i int) byte {
	if i < len(o.line) {
		return o.line[i]
	}
	return 0
}

// space returns the index of the first byte from i on that is not white space.
func (o *object) space(i int) int {
	for i < len(o.line) && (o.line[i] == ' ' || o.line[i] == '\t' || o.line[i] == '\n' || o.line[i] == '\r') {
		i++
	}
	return i
}

// The following methods return the index after the text that begins at i, or -1 if it is invalid.

// object reads an object. m is nil if none of its members is wanted.
func (o *object) object(i, depth int, m *member) int {
	if depth > maxDepth {
		return -1
	}
	if i = o.space(i + 1); o.at(i) == '}' {
		return i + 1
	}
	for {
		if o.at(i) != '"' {
			return -1
		}
		begin := i
		if i = o.text(i); i < 0 {
			return -1
		}
		var wanted *member
		if m != nil && m.members != nil {
			wanted = m.members[string(unquoteJSON(o.line[begin:i]))]
		}
		if i = o.space(i); o.at(i) != ':' {
			return -1
		}
		if i = o.value(o.space(i+1), depth, wanted); i < 0 {
			return -1
		}
		switch i = o.space(i); o.at(i) {
		case '}':
			return i + 1
		case ',':
			i = o.space(i + 1)
		default:
			return -1
		}
	}
}

// value reads any value, and keeps its text if m is not nil. If a member occurs again, the last one
// counts, as in package encoding/json.
func (o *object) value(i, depth int, m *member) int {
	if m != nil {
		if m.seen == o.number {
			o.forget(m)
		}
		m.seen = o.number
	}
	begin := i
	switch c := o.at(i); {
	case c == '{':
		return o.object(i, depth+1, m)
	case c == '[':
		return o.array(i, depth+1)
	case c == '"':
		i = o.text(i)
	case c == '-' || isDigit(c):
		i = o.numeral(i)
	case c == 't':
		i = o.literal(i, "true")
	case c == 'f':
		i = o.literal(i, "false")
	case c == 'n':
		return o.literal(i, "null")
	default:
		return -1
	}
	if i >= 0 && m != nil {
		for _, slot := range m.slots {
			o.texts[slot] = o.line[begin:i]
		}
	}
	return i
}

// forget removes the texts of m and its members.
func (o *object) forget(m *member) {
	for _, slot := range m.slots {
		o.texts[slot] = nil
	}
	for _, n := range m.members {
		o.forget(n)
	}
}

func (o *object) array(i, depth int) int {
	if depth > maxDepth {
		return -1
	}
	if i = o.space(i + 1); o.at(i) == ']' {
		return i + 1
	}
	for {
		if i = o.value(i, depth, nil); i < 0 {
			return -1
		}
		switch i = o.space(i); o.at(i) {
		case ']':
			return i + 1
		case ',':
			i = o.space(i + 1)
		default:
			return -1
		}
	}
}

// text reads a string.
func (o *object) text(i int) int {
	for i++; i < len(o.line); i++ {
		switch c := o.line[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return -1
		case c == '\\':
			i++
			switch o.at(i) {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				for range 4 {
					if i++; !isHex(o.at(i)) {
						return -1
					}
				}
			default:
				return -1
			}
		}
	}
	return -1
}

// numeral reads a number.
func (o *object) numeral(i int) int {
	if o.at(i) == '-' {
		i++
	}
	if o.at(i) == '0' {
		i++
	} else if i = o.digits(i); i < 0 {
		return -1
	}
	if o.at(i) == '.' {
		if i = o.digits(i + 1); i < 0 {
			return -1
		}
	}
	if o.at(i)|0x20 == 'e' {
		if i++; o.at(i) == '+' || o.at(i) == '-' {
			i++
		}
		return o.digits(i)
	}
	return i
}

// digits reads one or more digits.
func (o *object) digits(i int) int {
	begin := i
	for isDigit(o.at(i)) {
		i++
	}
	if i == begin {
		return -1
	}
	return i
}

func (o *object) literal(i int, word string) int {
	if end := i + len(word); end <= len(o.line) && string(o.line[i:end]) == word {
		return end
	}
	return -1
}
