"""What DDC has in its Tables 1 and 2, under its names of methods and data."""

PROPOSED, SIMILARITY, RANDOM, FEDAVG, SELDOM = "Proposed", "Similarity", "Random", "FedAvg", "FedAvg, seldom"
METHODS = {
    PROPOSED: "ddc:score=true",
    SIMILARITY: "similarity:score=true",
    RANDOM: "geographic:score=true",
    FEDAVG: "fedavg",
    SELDOM: "fedavg",  # averages as often as heads report
}
CLUSTERED = (PROPOSED, SIMILARITY, RANDOM)
ORDER = ((PROPOSED, SIMILARITY), (SIMILARITY, RANDOM), (RANDOM, FEDAVG))
FASHION, CIFAR = "Fashion-MNIST", "CIFAR-10"
DATASETS = {FASHION: "fashion-mnist", CIFAR: "cifar10"}
TABLE_1 = {
    FASHION: {PROPOSED: 83.4, SIMILARITY: 79.8, RANDOM: 76.7, FEDAVG: 73.6},
    CIFAR: {PROPOSED: 82.1, SIMILARITY: 78.3, RANDOM: 73.8, FEDAVG: 70.2},
}
TABLE_2 = {0.0: (70.4, 101.0), 0.3: (79.5, 117.0), 0.5: (83.4, 132.0), 0.7: (84.9, 154.0), 1.0: (85.1, 168.0)}
ALPHAS = tuple(TABLE_2)
CAPACITIES = (20, 10)
SIZES = (60, 80, 100, 120)
ROUNDS = 200  # for which joules are given
TAU = (1, 2)
