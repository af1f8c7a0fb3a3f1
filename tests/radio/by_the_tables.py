"""TR 38.901 once more, one number at a time, straight from Tables 7.4.1-1 and 7.4.2-1. d2, d3, heights in m; f in GHz."""

from math import exp, log10, pi

C = 3.0e8


def probability(scenario, d2, h_ut):
    if scenario == "rma":
        return 1.0 if d2 <= 10 else exp(-(d2 - 10) / 1000)
    if scenario == "umi":
        return 1.0 if d2 <= 18 else 18 / d2 + exp(-d2 / 36) * (1 - 18 / d2)
    if scenario == "uma":
        if d2 <= 18:
            return 1.0
        c = 0.0 if h_ut <= 13 else ((h_ut - 13) / 10) ** 1.5
        return (18 / d2 + exp(-d2 / 63) * (1 - 18 / d2)) * (1 + c * 5 / 4 * (d2 / 100) ** 3 * exp(-d2 / 150))
    if scenario == "inh-open":
        if d2 <= 5:
            return 1.0
        return exp(-(d2 - 5) / 70.8) if d2 <= 49 else exp(-(d2 - 49) / 211.7) * 0.54
    if d2 <= 1.2:
        return 1.0
    return exp(-(d2 - 1.2) / 4.7) if d2 < 6.5 else exp(-(d2 - 6.5) / 32.6) * 0.32


def los_db(scenario, d2, h_bs, h_ut, f, h_e=1.0, h=5.0):
    d3 = (d2**2 + (h_bs - h_ut) ** 2) ** 0.5
    if scenario in ("uma", "umi"):
        d_bp = 4 * (h_bs - h_e) * (h_ut - h_e) * f * 1e9 / C
        if scenario == "uma":
            if d2 <= d_bp:
                return 28.0 + 22 * log10(d3) + 20 * log10(f)
            return 28.0 + 40 * log10(d3) + 20 * log10(f) - 9 * log10(d_bp**2 + (h_bs - h_ut) ** 2)
        if d2 <= d_bp:
            return 32.4 + 21 * log10(d3) + 20 * log10(f)
        return 32.4 + 40 * log10(d3) + 20 * log10(f) - 9.5 * log10(d_bp**2 + (h_bs - h_ut) ** 2)
    if scenario == "rma":
        d_bp = 2 * pi * h_bs * h_ut * f * 1e9 / C

        def pl1(d):
            free = 20 * log10(40 * pi * d * f / 3)
            return free + min(0.03 * h**1.72, 10) * log10(d) - min(0.044 * h**1.72, 14.77) + 0.002 * log10(h) * d

        return pl1(d3) if d2 <= d_bp else pl1(d_bp) + 40 * log10(d3 / d_bp)
    return 32.4 + 17.3 * log10(d3) + 20 * log10(f)


def nlos_db(scenario, d2, h_bs, h_ut, f, h_e=1.0, h=5.0, w=20.0):
    d3 = (d2**2 + (h_bs - h_ut) ** 2) ** 0.5
    if scenario == "uma":
        other = 13.54 + 39.08 * log10(d3) + 20 * log10(f) - 0.6 * (h_ut - 1.5)
    elif scenario == "umi":
        other = 35.3 * log10(d3) + 22.4 + 21.3 * log10(f) - 0.3 * (h_ut - 1.5)
    elif scenario == "rma":
        other = 161.04 - 7.1 * log10(w) + 7.5 * log10(h)
        other -= (24.37 - 3.7 * (h / h_bs) ** 2) * log10(h_bs)
        other += (43.42 - 3.1 * log10(h_bs)) * (log10(d3) - 3)
        other += 20 * log10(f) - (3.2 * log10(11.75 * h_ut) ** 2 - 4.97)
    else:
        other = 38.3 * log10(d3) + 17.30 + 24.9 * log10(f)
    return max(los_db(scenario, d2, h_bs, h_ut, f, h_e, h), other)
