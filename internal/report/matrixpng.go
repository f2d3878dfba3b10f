package report

import (
	"image/color"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// PNG writes a picture: on the left the choices that matter, on the right the rate
// of every cell by the level of each choice.
func (m *Matrix) PNG(w io.Writer, opts PNGOptions) error {
	if err := opts.Validate(); err != nil {
		return err
	}
	opts = opts.sized(defaultHeight)
	return writePicture(w, opts, func(dc draw.Canvas) error {
		p := matrixPicture{m: m, dc: dc}
		p.draw(opts.Title)
		return nil
	})
}

type matrixPicture struct {
	m  *Matrix
	dc draw.Canvas
}

// The share of the width for the bars, and the maximum number of bars.
const (
	barsWidth = 0.42
	maxBars   = 14
)

func (p *matrixPicture) draw(title string) {
	dc := p.dc
	dc.SetColor(color.White)
	dc.Fill(dc.Rectangle.Path())
	left, top, room := dc.Min.X+px(marginSide), dc.Max.Y, dc.Max.X-dc.Min.X-px(2*marginSide)
	if title == "" {
		title = p.m.title()
	}
	fitted(dc, textStyle(24, inkColour, true), vg.Point{X: left, Y: top - px(18)}, room, title)
	fitted(dc, textStyle(15, mutedColour, false), vg.Point{X: left, Y: top - px(52)}, room, p.m.subtitle())
	if len(p.m.recs) == 0 || len(p.m.varied) == 0 {
		dc.FillText(textStyle(15, inkColour, false), vg.Point{X: left, Y: top - px(100)}, "nothing was varied, or nothing came to its end")
		return
	}
	split := dc.Min.X + (dc.Max.X-dc.Min.X)*barsWidth
	p.bars(vg.Rectangle{Min: vg.Point{X: left, Y: dc.Min.Y + px(marginBottom)}, Max: vg.Point{X: split - px(30), Y: top - px(90)}})
	p.dots(vg.Rectangle{Min: vg.Point{X: split, Y: dc.Min.Y + px(marginBottom)}, Max: vg.Point{X: dc.Max.X - px(marginSide), Y: top - px(90)}})
}

// bars draws the shares, the largest first within choices, pairs and the rest.
func (p *matrixPicture) bars(at vg.Rectangle) {
	dc := p.dc
	dc.FillText(textStyle(15, inkColour, true), vg.Point{X: at.Min.X, Y: at.Max.Y}, "share of the variance of the rate's logarithm")
	shares := slices.Clone(p.m.Shares)
	for len(shares) > maxBars {
		// The smallest pairs are the least informative.
		i := slices.IndexFunc(shares, func(s Share) bool { return len(s.Of) == 0 }) - 1
		if i < 0 {
			i = len(shares) - 1
		}
		shares = slices.Delete(shares, i, i+1)
	}
	if len(shares) == 0 {
		return
	}
	top := at.Max.Y - px(32)
	row := min(px(34), (top-at.Min.Y)/vg.Length(len(shares)))
	names := (at.Max.X - at.Min.X) * 0.46
	room := at.Max.X - at.Min.X - names - px(60)
	for i, s := range shares {
		y := top - row*vg.Length(i)
		name := textStyle(14, inkColour, false)
		fitted(dc, name, vg.Point{X: at.Min.X, Y: y - px(4)}, names-px(8), s.Name)
		fill := color.Color(color.NRGBA{0xb6, 0xbf, 0xca, 0xff})
		switch len(s.Of) {
		case 1:
			fill = rgb(palette[0].light)
		case 2:
			fill = color.NRGBA{0x7f, 0xb8, 0xd8, 0xff}
		}
		x := at.Min.X + names
		width := max(px(1), room*vg.Length(min(1, math.Abs(s.Share))))
		box(dc, fill, x, y-row+px(8), x+width, y-px(2))
		dc.FillText(textStyle(14, mutedColour, false), vg.Point{X: x + width + px(6), Y: y - px(4)}, percent(s.Share))
	}
}

func box(dc draw.Canvas, c color.Color, x0, y0, x1, y1 vg.Length) {
	dc.SetColor(c)
	dc.Fill(vg.Rectangle{Min: vg.Point{X: x0, Y: y0}, Max: vg.Point{X: x1, Y: y1}}.Path())
}

// dots draws a panel for each choice, with a common axis of the rate.
func (p *matrixPicture) dots(at vg.Rectangle) {
	dc := p.dc
	dc.FillText(textStyle(15, inkColour, true), vg.Point{X: at.Min.X, Y: at.Max.Y}, "rows/s of each cell, logarithmic; lines are geometric means")
	low, high := p.m.extremes()
	pad := max(0.05, (high-low)*0.05)
	low, high = low-pad, high+pad
	body := vg.Rectangle{Min: vg.Point{X: at.Min.X + px(52), Y: at.Min.Y + px(50)}, Max: vg.Point{X: at.Max.X, Y: at.Max.Y - px(36)}}
	ty := func(log float64) vg.Length {
		return body.Min.Y + (body.Max.Y-body.Min.Y)*vg.Length((log-low)/(high-low))
	}
	tick := textStyle(13, mutedColour, false)
	tick.XAlign, tick.YAlign = text.XRight, text.YCenter
	ticks := decadeTicks(math.Exp(low), math.Exp(high))
	if len(ticks) < 2 {
		ticks = niceTicks(math.Exp(low), math.Exp(high))
	}
	for _, t := range ticks {
		y := ty(math.Log(t.Value))
		dc.StrokeLine2(draw.LineStyle{Color: gridColour, Width: px(1)}, body.Min.X, y, body.Max.X, y)
		dc.FillText(tick, vg.Point{X: body.Min.X - px(6), Y: y}, t.Label)
	}
	levels := 0
	for _, f := range p.m.varied {
		levels += len(p.m.Factors[f].Levels)
	}
	x := body.Min.X
	for _, f := range p.m.varied {
		width := (body.Max.X - body.Min.X) * vg.Length(len(p.m.Factors[f].Levels)) / vg.Length(levels)
		p.panel(f, x+px(6), x+width-px(6), body, ty)
		x += width
	}
}

// panel draws the cells by the level of one choice.
func (p *matrixPicture) panel(factor int, from, to vg.Length, body vg.Rectangle, ty func(float64) vg.Length) {
	dc := p.dc
	levels := p.m.Factors[factor].Levels
	colour := rgb(palette[factor%len(palette)].light)
	name := textStyle(14, inkColour, true)
	name.XAlign = text.XCenter
	fitted(dc, name, vg.Point{X: (from + to) / 2, Y: body.Min.Y - px(26)}, to-from, p.m.Factors[factor].Name)
	step := (to - from) / vg.Length(len(levels))
	for l, level := range levels {
		x := from + step*(vg.Length(l)+0.5)
		label := textStyle(13, mutedColour, false)
		label.XAlign = text.XCenter
		fitted(dc, label, vg.Point{X: x, Y: body.Min.Y - px(6)}, step-px(2), level)
		var logs []float64
		for i, c := range p.m.Cells {
			if c.Rate == nil || c.Levels[factor] != level {
				continue
			}
			log := math.Log(*c.Rate)
			logs = append(logs, log)
			// Spread the dots sideways deterministically: multiples of the golden
			// ratio fill an interval evenly.
			_, frac := math.Modf(float64(i) * 0.618034)
			aside := step * 0.5 * vg.Length(frac-0.5)
			dc.DrawGlyph(draw.GlyphStyle{Color: colour, Radius: px(3), Shape: draw.CircleGlyph{}}, vg.Point{X: x + aside, Y: ty(log)})
		}
		if len(logs) > 0 {
			var mean float64
			for _, v := range logs {
				mean += v / float64(len(logs))
			}
			dc.StrokeLine2(draw.LineStyle{Color: inkColour, Width: px(3)}, x-step*0.32, ty(mean), x+step*0.32, ty(mean))
		}
	}
}
