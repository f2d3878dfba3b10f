package parse

import "github.com/rowmill/rowmill/internal/sqltext"

// fromList reads the operand of FROM.
func (p *parser) fromList() (list []*From) {
	for {
		left := p.factor()
		if len(list) > 0 && p.syn.Bracketed && p.joins() {
			// A comma and JOIN bind alike, from the left.
			for _, f := range list[1:] {
				list[0] = p.cross(list[0], f)
			}
			left = p.cross(list[0], left)
			list = nil
		}
		list = append(list, p.joined(left))
		if !p.accept(",") {
			return list
		}
	}
}

func (p *parser) cross(left, right *From) *From {
	return &From{Span: sqltext.Span{From: left.From, To: right.To}, Join: "CROSS", Left: left, Right: right}
}

// joins reports whether a JOIN follows.
func (p *parser) joins() bool {
	return p.peek().IsOne("JOIN", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "NATURAL", "STRAIGHT_JOIN")
}

// joined reads the joins that follow an operand.
func (p *parser) joined(left *From) *From {
	// bare reports an earlier join without a condition. Where a condition may be left out, the server
	// takes the next join as the right operand of the bare join, which changes the result of some
	// joins.
	bare := false
	for p.joins() {
		t := p.peek()
		j := &From{Left: left}
		j.Span.From = left.Span.From
		j.Natural = p.accept("NATURAL")
		straight := false
		switch t := p.peek(); {
		case t.Is("STRAIGHT_JOIN") && p.syn.Introducer && !j.Natural:
			p.next()
			j.Join, straight = "INNER", true
		case t.Is("CROSS") && !j.Natural:
			p.next()
			j.Join = "CROSS"
		case t.IsOne("LEFT", "RIGHT"), t.Is("FULL") && !p.syn.Introducer:
			p.next()
			p.accept("OUTER")
			j.Join = t.Word
		case t.Is("FULL"):
			p.unexpected()
		default:
			p.accept("INNER")
			j.Join = "INNER"
		}
		if !straight {
			p.expect("JOIN")
		}
		j.Right = p.factor()
		conditional := true
		switch {
		case j.Natural:
		case p.accept("ON"):
			j.On = p.expr()
		case p.accept("USING"):
			j.Using = p.names()
			if p.peek().Is("AS") {
				p.fail(p.peek(), "an alias of USING")
			}
		case j.Join == "CROSS":
			conditional = false
		case j.Join == "INNER" && !p.syn.Casts:
			conditional = false
			if p.joins() {
				p.fail(p.peek(), "a join without a condition before another join")
			}
			if !p.syn.Introducer || !straight {
				j.Join = "CROSS"
			}
		default:
			p.unexpected()
		}
		if conditional && j.Join == "CROSS" {
			if p.syn.Casts {
				p.fail(t, "CROSS JOIN with a condition")
			}
			j.Join = "INNER"
		}
		if bare && p.syn.Introducer && (j.Natural || j.Using != nil || j.Join == "RIGHT") {
			p.fail(t, "a join after one without a condition")
		}
		bare = bare || !conditional
		if p.peek().Is("ON") || p.peek().Is("USING") {
			p.fail(p.peek(), "a join within the operand of a join, without parentheses")
		}
		j.To = p.end()
		left = j
	}
	return left
}

// factor reads an operand of a join.
func (p *parser) factor() *From {
	p.enter()
	defer p.leave()
	f := &From{Span: sqltext.Span{From: p.peek().From}}
	if p.accept("LATERAL") {
		f.Lateral = true
		if !p.peek().Is("(") {
			p.fail(p.peek(), "a function in FROM")
		}
	}
	switch t := p.peek(); {
	case t.Is("(") && p.isQuery(p.i+1):
		f.Query = p.parenthesized()
		f.Alias = p.alias(false)
		if p.peek().Is("(") && f.Alias != "" {
			f.Columns = p.names()
		}
	case t.Is("(") && !f.Lateral:
		p.next()
		list := p.fromList()
		p.expect(")")
		f = list[0]
		for _, right := range list[1:] {
			f = p.cross(f, right)
		}
		f.Span = sqltext.Span{From: t.From, To: p.end()}
		if a := p.alias(false); a != "" {
			p.fail(t, "an alias of a join")
		}
		return f
	default:
		p.table(f)
	}
	f.To = p.end()
	return f
}

// table reads a table with its partitions, alias and names of columns. Index hints, samples and
// former versions of rows are not read.
func (p *parser) table(f *From) {
	t := p.peek()
	if t.Is("ONLY") {
		p.fail(t, "ONLY")
	}
	f.Table = p.name()
	if p.accept(".") {
		f.Database, f.Table = f.Table, p.member()
	}
	f.Name = sqltext.Span{From: t.From, To: p.end()}
	if p.peek().Is(".") {
		p.fail(t, "a table's name of three parts")
	}
	if p.peek().Is("(") {
		p.fail(t, "a function in FROM")
	}
	if p.accept("PARTITION") {
		f.Partitions = p.names()
	}
	f.Alias = p.alias(false)
	if f.Alias != "" && p.peek().Is("(") && p.syn.Casts {
		f.Columns = p.names()
	}
}
